"""The contest's accuracy gate: an element passes by its absolute or its relative error, never by a sum."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from harness.baseline import TransformerConfig
from harness.blocks import Block, blocks, within
from harness.inputs import generate_random_case

SHOWN_FEATURE_DIMS = 16
REFERENCE_FLOOR = 1e-12
INF = float("inf")
BLOCK_ELEMENTS = 1 << 22  # compared at once, in some 25 bytes of working memory each


@dataclass(frozen=True)
class AccuracyResult:
    """How far one output is from its reference; errors are in the output's own unit.

    The worst element is the one with the largest absolute error; `failed_feature_dims` are the indices of
    the last axis at which any element failed. A pair with a nan or an inf in it has an infinite error.
    """

    passed: bool
    total_elements: int
    failed_elements: int
    max_abs_error: float
    max_relative_error: float
    mean_abs_error: float
    failed_feature_dims: list[int]
    worst_index: tuple[int, ...]
    reference_at_worst: float
    optimized_at_worst: float


@dataclass(frozen=True)
class Worst:
    """The element that uses the largest share of its own budget, max(atol, rtol * |r|); above 1 it fails."""

    share: float
    index: tuple[int, ...]
    reference: float
    optimized: float


def _error_and_magnitude(reference: Tensor, optimized: Tensor) -> tuple[Tensor, Tensor]:
    """Return |o - r| and |r| on float32 copies; the error of a pair that is not finite is inf."""
    reference, optimized = reference.float(), optimized.float()
    error = (optimized - reference).abs_()
    error.masked_fill_(~(reference.isfinite() & optimized.isfinite()), INF)
    return error, reference.abs()


def _check_shapes(reference: Tensor, optimized: Tensor) -> None:
    if reference.shape != optimized.shape:
        raise ValueError(
            f"the output's shape {tuple(optimized.shape)} is not the reference's {tuple(reference.shape)}"
        )


class _Tally:
    """The figures of the blocks so far. Where two elements are equally wrong, the first is the worst."""

    def __init__(self, rtol: float, atol: float) -> None:
        self._rtol, self._atol = rtol, atol
        self.failed_elements, self.total_elements = 0, 0
        self.max_abs, self.max_rel, self.sum_abs = -1.0, -1.0, 0.0
        self.failed_dims: Tensor | None = None
        self.worst: tuple[int, ...] = ()

    def add(self, block: Block, reference: Tensor, optimized: Tensor) -> None:
        """Take in one block of both."""
        error, magnitude = _error_and_magnitude(reference, optimized)
        infinite = error.isinf()
        # As the contract writes it: what passes is what compares; a budget of nan lets nothing through.
        failed = ~((error <= self._atol) | (error <= self._rtol * magnitude)) | infinite
        relative = error / magnitude.clamp_(min=REFERENCE_FLOOR)
        self.max_rel = max(self.max_rel, float(relative.masked_fill_(infinite, INF).max()))
        if (max_abs := float(error.max())) > self.max_abs:
            self.max_abs, self.worst = max_abs, within(block, _place_of_max(error))
        self.sum_abs += float(error.sum(dtype=torch.float64))
        self.total_elements += error.numel()
        self.failed_elements += int(failed.sum())
        dims = failed.reshape(-1, failed.shape[-1]).any(dim=0)
        self.failed_dims = dims if self.failed_dims is None else self.failed_dims | dims


def _place_of_max(values: Tensor) -> tuple[int, ...]:
    return tuple(int(i) for i in torch.unravel_index(values.argmax(), values.shape))


def compare_outputs(reference: Tensor, optimized: Tensor, rtol: float, atol: float) -> AccuracyResult:
    """Compare element by element: both finite, and |o - r| <= atol or |o - r| <= rtol * |r|, in float32.

    Walks both in blocks: beyond them it needs some 100 MiB, whatever their size. The mean is summed in
    float64. Raises ValueError when the shapes differ; a difference in dtype only warns.
    """
    if reference.dtype != optimized.dtype:
        warnings.warn(f"the output is {optimized.dtype}, the reference {reference.dtype}", stacklevel=2)
    _check_shapes(reference, optimized)
    tally = _Tally(rtol, atol)
    for block in blocks(reference.shape, BLOCK_ELEMENTS):
        tally.add(block, reference[block], optimized[block])
    assert tally.failed_dims is not None
    return AccuracyResult(
        passed=tally.failed_elements == 0,
        total_elements=tally.total_elements,
        failed_elements=tally.failed_elements,
        max_abs_error=tally.max_abs,
        max_relative_error=tally.max_rel,
        mean_abs_error=float(torch.tensor(tally.sum_abs / tally.total_elements, dtype=torch.float32)),
        failed_feature_dims=tally.failed_dims.nonzero().flatten().tolist(),
        worst_index=tally.worst,
        reference_at_worst=float(reference[tally.worst]),
        optimized_at_worst=float(optimized[tally.worst]),
    )


def worst_share(reference: Tensor, optimized: Tensor, rtol: float, atol: float) -> Worst:
    """Return the element whose |o - r| is the largest share of its own budget, max(atol, rtol * |r|).

    The share is above 1 exactly when `compare_outputs` fails; inf for a nan or an inf on either side.
    Walks in blocks like `compare_outputs`. Raises ValueError when the shapes differ.
    """
    _check_shapes(reference, optimized)
    largest, index = -1.0, (0,) * reference.dim()
    for block in blocks(reference.shape, BLOCK_ELEMENTS):
        share = _shares(reference[block], optimized[block], rtol, atol)
        if (found := float(share.max())) > largest:
            largest, index = found, within(block, _place_of_max(share))
    return Worst(largest, index, float(reference[index]), float(optimized[index]))


def _shares(reference: Tensor, optimized: Tensor, rtol: float, atol: float) -> Tensor:
    error, magnitude = _error_and_magnitude(reference, optimized)
    infinite, none = error.isinf(), error == 0
    # 0/0, under a budget of nothing, is no error at all; inf/inf is one.
    share = error.div_(magnitude.mul_(rtol).clamp_(min=atol))
    return share.masked_fill_(none, 0.0).masked_fill_(infinite | share.isnan(), INF)


def gate_share(reference: Tensor, optimized: Tensor, rtol: float, atol: float) -> float:
    """Return the share alone of `worst_share`."""
    return worst_share(reference, optimized, rtol, atol).share


def run_accuracy_tests(
    baseline: nn.Module,
    optimized: nn.Module,
    config: TransformerConfig,
    device: torch.device,
    dtype: torch.dtype,
    trials: int,
    seed: int,
    padding_ratio: float,
    input_scale: float,
    rtol: float,
    atol: float,
) -> bool:
    """Compare the two models on `trials` inputs of seeds seed, seed + 1, …; print each and a summary.

    Returns whether every element of every trial passed.
    """
    results = []
    for trial in range(trials):
        with torch.inference_mode():
            case = generate_random_case(config, device, dtype, seed + trial, padding_ratio, input_scale)
            result = compare_outputs(baseline(*case), optimized(*case), rtol, atol)
        print(f"trial {trial + 1:02d}/{trials}: {_figures([result])}", flush=True)
        if not result.passed:
            print(_worst(result), flush=True)
        results.append(result)
    print(f"summary: {_figures(results)}", flush=True)
    return all(result.passed for result in results)


def _figures(results: list[AccuracyResult]) -> str:
    verdict = "PASS" if all(result.passed for result in results) else "FAIL"
    max_abs = max(result.max_abs_error for result in results)
    max_rel = max(result.max_relative_error for result in results)
    failed = sum(result.failed_elements for result in results)
    total = sum(result.total_elements for result in results)
    return f"{verdict} | max_abs={max_abs:.6g} | max_rel={max_rel:.6g} | failed={failed}/{total}"


def _worst(result: AccuracyResult) -> str:
    dims = result.failed_feature_dims[:SHOWN_FEATURE_DIMS]
    more = ", …" if len(result.failed_feature_dims) > len(dims) else ""
    return (
        f"  worst at {result.worst_index}: reference={result.reference_at_worst:.6g} "
        f"optimized={result.optimized_at_worst:.6g}\n"
        f"  failed feature dims: {', '.join(map(str, dims))}{more}"
    )
