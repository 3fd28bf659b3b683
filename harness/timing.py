"""The contest's timing: one fixed input, warm calls, each call between its own pair of clock readings."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from harness.baseline import TransformerConfig
from harness.inputs import generate_random_case
from harness.shapes import TIMING_SEED_OFFSET

SEED_OFFSET = TIMING_SEED_OFFSET


def percentile(values: Sequence[float], q: float) -> float:
    """Return the quantile q (0 to 1) of the values, linear between the two nearest.

    Raises ValueError when there are no values or q is out of range.
    """
    if not values or not 0 <= q <= 1:
        raise ValueError(f"no quantile {q} of {len(values)} values")
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


@dataclass(frozen=True)
class TimingResult:
    """The times of one side's calls in milliseconds, all rounds pooled."""

    samples_ms: list[float]

    @property
    def mean_ms(self) -> float:
        """The mean."""
        return statistics.fmean(self.samples_ms)

    @property
    def median_ms(self) -> float:
        """The median."""
        return statistics.median(self.samples_ms)

    @property
    def p90_ms(self) -> float:
        """The 90th percentile."""
        return percentile(self.samples_ms, 0.90)

    @property
    def min_ms(self) -> float:
        """The shortest."""
        return min(self.samples_ms)


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def warmup_model(
    model: nn.Module, x: Tensor, valid_mask: Tensor, iterations: int, device: torch.device
) -> None:
    """Call the model `iterations` times, then wait for the device."""
    with torch.inference_mode():
        for _ in range(iterations):
            model(x, valid_mask)
    _synchronize(device)


def benchmark_once(
    model: nn.Module, x: Tensor, valid_mask: Tensor, iterations: int, device: torch.device
) -> list[float]:
    """Return the times of `iterations` calls in milliseconds.

    On CUDA each call is enqueued between two events with no wait between calls: the host may run ahead, and
    where its work for a call outlasts the device's, the events measure the host.
    """
    time_calls = _time_on_cuda if device.type == "cuda" else _time_on_host
    _synchronize(device)
    with torch.inference_mode():
        return time_calls(model, x, valid_mask, iterations, device)


def _time_on_cuda(
    model: nn.Module, x: Tensor, valid_mask: Tensor, iterations: int, device: torch.device
) -> list[float]:
    with torch.cuda.device(device):  # events are recorded on the current device's current stream
        pairs = [(_cuda_event(), _cuda_event()) for _ in range(iterations)]
        for start, end in pairs:
            start.record()
            model(x, valid_mask)
            end.record()
        torch.cuda.synchronize(device)
        return [start.elapsed_time(end) for start, end in pairs]


def _cuda_event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _time_on_host(
    model: nn.Module, x: Tensor, valid_mask: Tensor, iterations: int, _device: torch.device
) -> list[float]:
    samples_ms = []
    for _ in range(iterations):
        start = time.perf_counter_ns()
        model(x, valid_mask)
        samples_ms.append((time.perf_counter_ns() - start) / 1e6)
    return samples_ms


def benchmark_models(
    baseline: nn.Module,
    optimized: nn.Module,
    config: TransformerConfig,
    device: torch.device,
    dtype: torch.dtype,
    seed: int,
    padding_ratio: float,
    input_scale: float,
    warmup: int,
    repeats: int,
    rounds: int,
) -> None:
    """Time both models on one input and print their figures and the ratio of their medians.

    Both are warmed first; then even rounds time the baseline first, odd rounds the optimized model.
    """
    case = generate_random_case(config, device, dtype, seed + SEED_OFFSET, padding_ratio, input_scale)
    sides: list[tuple[nn.Module, list[float]]] = [(baseline, []), (optimized, [])]
    for model, _ in sides:
        warmup_model(model, *case, warmup, device)
    for number in range(rounds):
        for model, samples_ms in sides if number % 2 == 0 else reversed(sides):
            samples_ms.extend(benchmark_once(model, *case, repeats, device))
    reference, candidate = (TimingResult(samples_ms) for _, samples_ms in sides)
    tokens = config.batch_size * config.seq_len
    print(f"baseline : {_figures(reference, tokens)}")
    print(f"optimized: {_figures(candidate, tokens)}")
    speedup = reference.median_ms / candidate.median_ms
    print(f"speedup  : {speedup:.3f}x based on median latency", flush=True)


def _figures(timing: TimingResult, tokens: int) -> str:
    throughput = tokens / (timing.median_ms / 1000)
    return (
        f"median={timing.median_ms:.4f} ms | mean={timing.mean_ms:.4f} ms | p90={timing.p90_ms:.4f} ms | "
        f"min={timing.min_ms:.4f} ms | throughput={throughput:.2f} token/s"
    )
