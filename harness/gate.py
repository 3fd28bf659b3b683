"""The contest's accuracy gate: an element passes by its absolute or its relative error, never by a sum."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from harness.baseline import TransformerConfig
from harness.inputs import generate_random_case

SHOWN_FEATURE_DIMS = 16
REFERENCE_FLOOR = 1e-12
INF = float("inf")


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


def _error_and_magnitude(reference: Tensor, optimized: Tensor) -> tuple[Tensor, Tensor]:
    """Return |o - r| and |r| on float32 copies; the error of a pair that is not finite is inf."""
    if reference.shape != optimized.shape:
        raise ValueError(
            f"the output's shape {tuple(optimized.shape)} is not the reference's {tuple(reference.shape)}"
        )
    reference, optimized = reference.float(), optimized.float()
    error = (optimized - reference).abs_()
    error.masked_fill_(~(reference.isfinite() & optimized.isfinite()), INF)
    return error, reference.abs()


def compare_outputs(reference: Tensor, optimized: Tensor, rtol: float, atol: float) -> AccuracyResult:
    """Compare element by element: both finite, and |o - r| <= atol or |o - r| <= rtol * |r|, in float32.

    Raises ValueError when the shapes differ; a difference in dtype only warns.
    """
    if reference.dtype != optimized.dtype:
        warnings.warn(f"the output is {optimized.dtype}, the reference {reference.dtype}", stacklevel=2)
    error, magnitude = _error_and_magnitude(reference, optimized)
    infinite = error.isinf()
    # As the contract writes it: what passes is what compares, so that a budget of nan lets nothing through.
    failed = ~((error <= atol) | (error <= rtol * magnitude)) | infinite
    relative = (error / magnitude.clamp_(min=REFERENCE_FLOOR)).masked_fill_(infinite, INF)
    failed_elements = int(failed.sum())
    worst = tuple(int(i) for i in torch.unravel_index(error.argmax(), error.shape))
    return AccuracyResult(
        passed=failed_elements == 0,
        total_elements=error.numel(),
        failed_elements=failed_elements,
        max_abs_error=float(error.max()),
        max_relative_error=float(relative.max()),
        mean_abs_error=float(error.mean()),
        failed_feature_dims=failed.reshape(-1, failed.shape[-1]).any(dim=0).nonzero().flatten().tolist(),
        worst_index=worst,
        reference_at_worst=float(reference[worst]),
        optimized_at_worst=float(optimized[worst]),
    )


def gate_share(reference: Tensor, optimized: Tensor, rtol: float, atol: float) -> float:
    """Return the worst element's |o - r| as a share of its own budget, max(atol, rtol * |r|).

    Above 1 exactly when `compare_outputs` fails; inf for a nan or an inf on either side.
    Raises ValueError when the shapes differ.
    """
    error, magnitude = _error_and_magnitude(reference, optimized)
    share = error / magnitude.mul_(rtol).clamp_(min=atol)
    # 0/0, under a budget of nothing, is no error at all; inf/inf is one.
    return float(share.masked_fill_(error == 0, 0.0).masked_fill_(error.isinf(), INF).max())


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
