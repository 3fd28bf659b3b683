"""The contest's accuracy gate, worked by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from harness.baseline import TransformerConfig
from harness.gate import AccuracyResult, compare_outputs, gate_share, run_accuracy_tests

INF, NAN = math.inf, math.nan
RTOL, ATOL = 0.02, 0.002


def _compare(reference: list[float], optimized: list[float]) -> AccuracyResult:
    return compare_outputs(torch.tensor(reference), torch.tensor(optimized), RTOL, ATOL)


def _share(reference: list[float], optimized: list[float], rtol: float = RTOL, atol: float = ATOL) -> float:
    return gate_share(torch.tensor(reference), torch.tensor(optimized), rtol, atol)


def test_every_figure_by_hand() -> None:
    """One passing and one failing element give exactly these ten figures."""
    reference = torch.tensor([[[1.0, 2.0], [4.0, 0.5]]])
    optimized = torch.tensor([[[1.0, 2.03125], [4.0, 0.75]]])
    result = compare_outputs(reference, optimized, RTOL, ATOL)
    assert result == AccuracyResult(
        passed=False,
        total_elements=4,
        failed_elements=1,
        max_abs_error=0.25,
        max_relative_error=0.5,
        mean_abs_error=(0.03125 + 0.25) / 4,
        failed_feature_dims=[1],
        worst_index=(0, 1, 1),
        reference_at_worst=0.5,
        optimized_at_worst=0.75,
    )


@pytest.mark.parametrize(
    ("reference", "optimized", "passed"),
    [
        pytest.param(0.0, 0.002, True, id="exactly the absolute tolerance"),
        pytest.param(0.0, 0.0020000003, False, id="one float above the absolute tolerance"),
        pytest.param(0.0, -0.002, True, id="the same below"),
        pytest.param(1e-9, 0.0019, True, id="near-zero reference, by the absolute rule"),
        pytest.param(1e-9, 0.0021, False, id="near-zero reference"),
        pytest.param(50.0, 51.0, True, id="exactly the relative tolerance"),
        pytest.param(50.0, 51.00001, False, id="above the relative tolerance"),
        pytest.param(-50.0, -49.0, True, id="relative to the magnitude"),
        pytest.param(0.1, 0.1039, False, id="within the sum of both tolerances, outside each"),
        pytest.param(NAN, NAN, False, id="nan on both sides"),
        pytest.param(NAN, 1.0, False, id="nan in the reference"),
        pytest.param(1.0, NAN, False, id="nan in the output"),
        pytest.param(INF, 1.0, False, id="inf in the reference"),
        pytest.param(1.0, INF, False, id="inf in the output"),
        pytest.param(INF, INF, False, id="inf on both sides"),
        pytest.param(INF, -INF, False, id="inf of two signs"),
        pytest.param(3e38, -3e38, False, id="finite, with an infinite difference"),
    ],
)
def test_the_or_rule_at_its_edges(reference: float, optimized: float, passed: bool) -> None:
    """An element passes by either tolerance, never by their sum; the share of its budget agrees."""
    result = _compare([reference], [optimized])
    assert result.passed is passed
    assert result.failed_elements == int(not passed)
    assert (_share([reference], [optimized]) <= 1) is passed


@pytest.mark.parametrize(("reference", "optimized"), [(NAN, 1.0), (1.0, NAN), (INF, INF), (1.0, -INF)])
def test_an_element_that_is_not_finite_is_infinitely_wrong(reference: float, optimized: float) -> None:
    """Every error figure of such a pair is inf, and it is the worst element."""
    result = _compare([1.0, reference, 5.0], [1.0, optimized, 6.0])
    assert (result.max_abs_error, result.max_relative_error, result.mean_abs_error) == (INF, INF, INF)
    assert result.worst_index == (1,)
    assert result.failed_elements == 2
    assert _share([1.0, reference, 5.0], [1.0, optimized, 6.0]) == INF


def test_the_relative_error_has_a_floor() -> None:
    """Over a reference of zero the relative error is |o| / 1e-12: huge, and harmless."""
    result = _compare([0.0], [0.001])
    assert result.max_relative_error == pytest.approx(1e9)
    assert result.passed


def test_the_share_is_of_the_element_s_own_budget() -> None:
    """Errors of 0.001 over 0 and 0.5 over 50 use half of 0.002 and half of 1; the greater share counts."""
    assert _share([0.0], [0.001]) == pytest.approx(0.5)
    assert _share([50.0], [50.5]) == pytest.approx(0.5)
    assert _share([0.0, 50.0], [0.001, 50.75]) == pytest.approx(0.75)
    assert _share([0.0], [0.002]) == 1.0


def test_a_budget_of_nothing() -> None:
    """Without tolerances only equality passes."""
    assert _share([0.0, 3.0], [0.0, 3.0], 0.0, 0.0) == 0.0
    assert _share([0.0, 3.0], [1e-9, 3.0], 0.0, 0.0) == INF


floats = st.floats(-100, 100, width=32)


@given(floats, floats)
def test_share_and_gate_never_disagree(reference: float, optimized: float) -> None:
    """The share is above one exactly when the gate fails."""
    assert (_share([reference], [optimized]) > 1) is not _compare([reference], [optimized]).passed


@given(floats, st.integers(-2, 2))
def test_share_and_gate_agree_within_a_float_of_the_edge(reference: float, steps: int) -> None:
    """Outputs on the edge of the budget, and the floats beside it, get the same verdict from both."""
    r = torch.tensor([reference])
    o = r + torch.clamp(r.abs() * RTOL, min=ATOL)
    for _ in range(abs(steps)):
        o = torch.nextafter(o, torch.tensor([math.copysign(1000, steps)]))
    assert (gate_share(r, o, RTOL, ATOL) > 1) is not compare_outputs(r, o, RTOL, ATOL).passed


@pytest.mark.parametrize(("rtol", "atol"), [(NAN, 0.0), (0.0, NAN), (INF, 0.0)])
def test_a_budget_that_is_no_number_lets_nothing_through(rtol: float, atol: float) -> None:
    """An error of 1 at a reference of 0 fails under nan, and under inf times 0, which is nan."""
    assert not compare_outputs(torch.zeros(1), torch.ones(1), rtol, atol).passed


def test_another_shape_raises() -> None:
    """Shapes that would broadcast are an error all the same."""
    for judge in (compare_outputs, gate_share):
        with pytest.raises(ValueError, match=r"\(1, 2\) is not the reference's \(2, 2\)"):
            judge(torch.zeros(2, 2), torch.zeros(1, 2), RTOL, ATOL)


def test_another_dtype_warns() -> None:
    """A float16 output is compared in float32 after a warning."""
    with pytest.warns(UserWarning, match=r"the output is torch\.float16, the reference torch\.float32"):
        result = compare_outputs(torch.ones(2), torch.ones(2, dtype=torch.float16), RTOL, ATOL)
    assert result.passed


def test_half_precision_is_compared_in_float32() -> None:
    """The difference of two float16 values beside 1000 is not rounded to float16 again."""
    result = compare_outputs(torch.tensor([1000.0]).half(), torch.tensor([1000.5]).half(), RTOL, ATOL)
    assert result.max_abs_error == 0.5
    assert result.mean_abs_error == 0.5


def test_comparing_leaves_both_outputs_alone() -> None:
    """Neither judge writes into what it is given."""
    reference, optimized = torch.tensor([1.0, -2.0, NAN]), torch.tensor([-1.0, 3.0, 1.0])
    before = reference.clone(), optimized.clone()
    compare_outputs(reference, optimized, RTOL, ATOL)
    gate_share(reference, optimized, RTOL, ATOL)
    torch.testing.assert_close((reference, optimized), before, rtol=0, atol=0, equal_nan=True)


class _Echo(nn.Module):
    """Return the input, plus an offset on all features but the first from the third call on."""

    def __init__(self, offset: float = 0.0) -> None:
        super().__init__()
        self.offset = offset
        self.inputs: list[Tensor] = []

    def forward(self, x: Tensor, valid_token_mask: Tensor) -> Tensor:
        self.inputs.append(x)
        assert torch.is_inference_mode_enabled() and valid_token_mask.all()
        shift = torch.full_like(x, self.offset if len(self.inputs) > 2 else 0.0)
        shift[..., 0] = 0
        return x + shift


def _run(optimized: _Echo, trials: int, width: int) -> bool:
    config = TransformerConfig(1, 2, width, 1, 1, 1, True)
    cpu = torch.device("cpu")
    return run_accuracy_tests(
        _Echo(), optimized, config, cpu, torch.float32, trials, 40, 0.0, 0.0, RTOL, ATOL
    )


def test_passing_trials_print_a_line_each_and_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    """Two trials that pass print exactly these lines."""
    assert _run(_Echo(), 2, 3)
    assert capsys.readouterr().out.splitlines() == [
        "trial 01/2: PASS | max_abs=0 | max_rel=0 | failed=0/6",
        "trial 02/2: PASS | max_abs=0 | max_rel=0 | failed=0/6",
        "summary: PASS | max_abs=0 | max_rel=0 | failed=0/12",
    ]


def test_a_failing_trial_names_the_worst_element_and_sixteen_features(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One failing trial fails the run and prints its worst element and the first 16 failed features."""
    assert not _run(_Echo(0.125), 3, 19)
    assert capsys.readouterr().out.splitlines()[2:] == [
        "trial 03/3: FAIL | max_abs=0.125 | max_rel=1.25e+11 | failed=36/38",
        "  worst at (0, 0, 1): reference=0 optimized=0.125",
        "  failed feature dims: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, …",
        "summary: FAIL | max_abs=0.125 | max_rel=1.25e+11 | failed=36/114",
    ]


def test_each_trial_has_the_next_seed() -> None:
    """Trial t of seed s draws the input of seed s + t."""
    echo = _Echo()
    config = TransformerConfig(1, 2, 3, 1, 1, 1, True)
    run_accuracy_tests(_Echo(), echo, config, torch.device("cpu"), torch.float32, 2, 40, 0.0, 1.0, RTOL, ATOL)
    for seed, x in zip((40, 41), echo.inputs, strict=True):
        assert torch.equal(x, torch.randn(1, 2, 3, generator=torch.Generator().manual_seed(seed)))
