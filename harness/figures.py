"""What the gate has found, of one output and of a whole case. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

from harness.shapes import Settings


@dataclass(frozen=True)
class Figures:
    """The gate's figures of one output, and the tolerances it was held to.

    The worst element is the one with the largest share of its own budget; `coverage` is the checked share of
    the output. `dtype_share` is the baseline's own share when it is held against itself in float32.
    """

    passed: bool
    failed_elements: int
    total_elements: int
    max_abs: float
    max_rel: float
    gate_share: float
    rtol: float = Settings.rtol
    atol: float = Settings.atol
    worst_index: tuple[int, ...] = ()
    worst_reference: float = 0.0
    worst_output: float = 0.0
    failed_dims: tuple[int, ...] = ()
    reference: str = "baseline"
    coverage: float = 1.0
    dtype_share: float | None = None


@dataclass(frozen=True)
class Gate:
    """The worst figures of one case's gate over all weight and input seeds.

    `gate_share` is the worst element's share of its own budget: above 1 it fails. That element's index, the
    two values at it and its weight and input seeds are the `worst_` fields; `failed_dims` are the features at
    which any element failed, `coverage` is the checked share of all outputs' elements.
    """

    failed_elements: int
    total_elements: int
    max_abs: float
    max_rel: float
    gate_share: float
    weight_seeds: tuple[int, ...]
    input_seeds: tuple[int, ...]
    reference: str = "baseline"
    coverage: float = 1.0
    rtol: float = Settings.rtol
    atol: float = Settings.atol
    worst_index: tuple[int, ...] = ()
    worst_reference: float = 0.0
    worst_output: float = 0.0
    worst_seeds: tuple[int, ...] = ()
    failed_dims: tuple[int, ...] = ()
