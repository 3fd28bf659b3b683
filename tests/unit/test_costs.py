"""What a case is estimated to cost, and in which order several cards take cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.shapes import OFFICIAL, ORACLE_S, SHAPES, SUITES, Case, Counts, call_cost_s, cost_s
from harness.sweep import longest_first


@pytest.mark.parametrize(("shape", "measured_ms"), [("s06", 1470.0), ("s08", 137.0), ("s13", 320.0)])
def test_estimate_agrees_with_published_times(shape: str, measured_ms: float) -> None:
    """The baseline's time on a T4, as others have measured it, is met within half of it."""
    assert measured_ms / 1.5 < call_cost_s(SHAPES[shape]) * 1e3 < measured_ms * 1.5


def test_cost_follows_counts_seeds_and_trials() -> None:
    """A case costs its start, and one call for every warm, timed and gated call of each side."""
    case = Case(SHAPES["s13"], counts=Counts(0, 0, 0), harness_args=("--accuracy-trials", "1"))
    call = call_cost_s(case.shape)
    start = cost_s(case) - 2 * call
    assert start > 0
    assert cost_s(case, seeds=3) == pytest.approx(start + 6 * call)
    assert cost_s(replace(case, counts=Counts(4, 5, 2))) == pytest.approx(start + 2 * (1 + 4 + 10) * call)


def test_without_a_baseline_one_side_is_called() -> None:
    """Shape 14 in float16 costs the oracle's time, one call a weight seed and four timed ones: 230 s each."""
    one, three = (cost_s(Case(SHAPES["s14"], dtype="float16"), seeds) for seeds in (1, 3))
    call = (three - one) / 2
    assert 200 < call < 300
    assert one == pytest.approx(ORACLE_S + 5 * call, rel=0.02)


def test_what_does_not_fit_costs_nothing() -> None:
    """Shape 14's input and output in float32 outgrow a T4: the case is refused at once."""
    assert cost_s(Case(SHAPES["s14"])) == 0


def test_the_suite_but_for_shape_14_is_minutes() -> None:
    """Thirteen official shapes are some twenty minutes of a T4, most of it shape 6."""
    costs = {shape.key: cost_s(Case(shape)) for shape in SUITES["official"].shapes[:-1]}
    assert 10 < sum(costs.values()) / 60 < 60
    assert max(costs, key=lambda key: costs[key]) == "s06"


def test_longest_case_comes_first_and_equal_ones_stay_in_order() -> None:
    """Several cards take the dearest case first, so that the last to end are short."""
    keys = [case.shape.key for case in longest_first(map(Case, OFFICIAL), seeds=1)]
    assert keys[:4] == ["s14", "s06", "s13", "s08"]
    assert [key for key in keys if key in ("s02", "s03")] == ["s02", "s03"]
