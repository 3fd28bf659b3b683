"""The contest's timing protocol and its statistics, worked by hand."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor, nn

from harness.baseline import TransformerConfig
from harness.timing import TimingResult, benchmark_models, benchmark_once, percentile, warmup_model

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("values", "q", "expected"),
    [
        ([3.0, 1.0, 2.0], 0.5, 2.0),
        ([4.0, 1.0, 2.0, 3.0], 0.5, 2.5),
        ([10.0, 20.0], 0.9, 19.0),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 0.9, 4.6),
        ([5.0, 1.0], 0.0, 1.0),
        ([5.0, 1.0], 1.0, 5.0),
        ([7.0], 0.9, 7.0),
    ],
)
def test_percentiles_are_linear(values: list[float], q: float, expected: float) -> None:
    """A quantile between two values is on the straight line between them."""
    assert percentile(values, q) == pytest.approx(expected)


@pytest.mark.parametrize(("values", "q"), [([], 0.5), ([1.0], -0.1), ([1.0], 1.1), ([1.0], 90.0)])
def test_there_is_no_such_percentile(values: list[float], q: float) -> None:
    """No values, or a quantile outside 0 to 1, is an error."""
    with pytest.raises(ValueError, match="no quantile"):
        percentile(values, q)


def test_the_four_figures_by_hand() -> None:
    """Mean, median, 90th percentile and minimum of 4, 1, 2, 13."""
    timing = TimingResult([4.0, 1.0, 2.0, 13.0])
    assert (timing.mean_ms, timing.median_ms, timing.min_ms) == (5.0, 3.0, 1.0)
    assert timing.p90_ms == pytest.approx(4 + 0.7 * 9)


class _Recorder(nn.Module):
    """Note each call's name and input in a shared list."""

    def __init__(self, name: str, calls: list[tuple[str, Tensor]]) -> None:
        super().__init__()
        self.name = name
        self.calls = calls

    def forward(self, x: Tensor, valid_token_mask: Tensor) -> Tensor:
        assert torch.is_inference_mode_enabled() and not x.is_inference()
        self.calls.append((self.name, x))
        return x


def test_once_times_each_call() -> None:
    """Five calls give five times in milliseconds; warm-up calls give none."""
    calls: list[tuple[str, Tensor]] = []
    model = _Recorder("m", calls)
    x, mask = torch.zeros(1, 2, 3), torch.ones(1, 2, dtype=torch.bool)
    warmup_model(model, x, mask, 3, CPU)
    assert len(calls) == 3
    times = benchmark_once(model, x, mask, 5, CPU)
    assert len(calls) == 8
    assert len(times) == 5 and all(0 < ms < 1000 for ms in times)


def test_rounds_alternate_on_one_fixed_input(capsys: pytest.CaptureFixture[str]) -> None:
    """Warm-ups come first, odd rounds turn the order, every call gets the one input of seed + 100000."""
    calls: list[tuple[str, Tensor]] = []
    config = TransformerConfig(2, 4, 3, 1, 1, 1, True)
    benchmark_models(
        _Recorder("b", calls), _Recorder("u", calls), config, CPU, torch.float32, 9, 0.0, 1.0, 2, 3, 3
    )
    assert "".join(name for name, _ in calls) == "bbuubbbuuuuuubbbbbbuuu"
    expected = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(100_009))
    assert all(x is calls[0][1] for _, x in calls)
    assert torch.equal(calls[0][1], expected)
    _check_lines(capsys.readouterr().out.splitlines())


def _check_lines(lines: list[str]) -> None:
    figures = (
        r"median=(\d+\.\d{4}) ms \| mean=\d+\.\d{4} ms \| p90=\d+\.\d{4} ms \| min=\d+\.\d{4} ms"
        r" \| throughput=\d+\.\d{2} token/s"
    )
    assert len(lines) == 3
    assert re.fullmatch("baseline : " + figures, lines[0])
    assert re.fullmatch("optimized: " + figures, lines[1])
    assert re.fullmatch(r"speedup  : \d+\.\d{3}x based on median latency", lines[2])


def test_the_printed_figures_follow_from_the_pooled_samples(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With clock readings given, medians, throughput and the speedup are these to the last digit."""
    # Baseline 4, 8, candidate 1, 2; then, in the odd round, candidate 3, 2, baseline 6, 6.
    readings = iter(
        edge for ms in (4, 8, 1, 2, 3, 2, 6, 6) for edge in (1_000_000_000, 1_000_000_000 + ms * 1_000_000)
    )
    monkeypatch.setattr("harness.timing.time.perf_counter_ns", lambda: next(readings))
    calls: list[tuple[str, Tensor]] = []
    benchmark_models(
        _Recorder("b", calls),
        _Recorder("u", calls),
        TransformerConfig(2, 4, 3, 1, 1, 1, True),
        CPU,
        torch.float32,
        9,
        0.0,
        1.0,
        warmup=1,
        repeats=2,
        rounds=2,
    )
    assert capsys.readouterr().out == (
        "baseline : median=6.0000 ms | mean=6.0000 ms | p90=7.4000 ms | min=4.0000 ms"
        " | throughput=1333.33 token/s\n"
        "optimized: median=2.0000 ms | mean=2.0000 ms | p90=2.7000 ms | min=1.0000 ms"
        " | throughput=4000.00 token/s\n"
        "speedup  : 3.000x based on median latency\n"
    )
