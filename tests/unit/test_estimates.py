"""The model of a card: what it says of the official shapes, and how it is held against a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from builder import estimates
from builder.errors import UsageError
from builder.estimates import estimate
from builder.holding import hold, side_of, wrongness
from builder.roofline import card_of, floors
from harness.shapes import OFFICIAL, SHAPES, Shape
from tests.unit.measured_logs import S01, S02, Measured, reading_of
from tests.unit.written_logs import CARD

H200 = replace(CARD, name="NVIDIA H200")


@pytest.mark.parametrize(
    ("key", "side", "bound"),
    [
        ("s02", "baseline", "launches"),
        ("s13", "baseline", "memory"),
        ("s08", "baseline", "products"),
        ("s13", "safe", "attention"),
    ],
)
def test_what_bounds_a_shape_on_a_t4(key: str, side: str, bound: str) -> None:
    """Tiny shapes wait for the host, long ones for their scores or for attention, wide ones for products."""
    found = estimate(SHAPES[key], "Tesla T4", side)
    assert found and found.bound == bound


def test_it_is_close_to_what_others_published() -> None:
    """The baseline on a T4, from figures that it is not fitted to: others measured 148, 324 and 1510 ms."""
    for key, published_ms in (("s08", 148.0), ("s13", 324.0), ("s06", 1510.0)):
        found = estimate(SHAPES[key], "Tesla T4", "baseline")
        assert found and found.ms == pytest.approx(published_ms, rel=0.25)


def test_tf32_is_faster_where_there_is_some() -> None:
    """On an H200 products of shape 8 are, on a T4 nothing changes."""
    for device, changes in (("NVIDIA H200", True), ("Tesla T4", False)):
        plain, tf32 = (estimate(SHAPES["s08"], device, "sdpa", on) for on in (False, True))
        assert plain and tf32 and (tf32.ms < plain.ms) is changes


def test_other_cards_and_sides_have_none() -> None:
    """Of a card or a side that the model does not know it says nothing."""
    assert estimate(SHAPES["s01"], "NVIDIA A100", "baseline") is None
    assert estimate(SHAPES["s01"], "NVIDIA H200", "compiled") is None


@pytest.mark.parametrize("device", ["NVIDIA H200", "Tesla T4"])
@pytest.mark.parametrize("shape", OFFICIAL, ids=lambda shape: shape.key)
def test_no_estimate_lies_below_the_floor(shape: Shape, device: str) -> None:
    """Whatever the route, it takes longer than the least that its card and its arithmetic allow."""
    card = card_of(device)
    assert card
    least = floors(shape, card)
    for side, kind in (("baseline", "fp32"), ("sdpa", "fp32"), ("safe", "split"), ("fast", "half")):
        found = estimate(shape, device, side)
        assert found and found.ms > least[kind].ms


def test_the_table_has_every_official_shape() -> None:
    """One line each; shape 14 has no baseline to be faster than."""
    lines = estimates.table("Tesla T4").splitlines()[2:]
    assert [line.split(" | ")[0] for line in lines] == [f"| {shape.key}" for shape in OFFICIAL]
    assert lines[-1].split(" | ")[1] == "–" and lines[0].split(" | ")[5].endswith("×")


def test_a_run_is_held_against_its_card(tmp_path: Path) -> None:
    """Each side's ratio of measured to estimated, their geomean and the worst, whichever way it is wrong."""
    expected = estimate(SHAPES["s01"], "NVIDIA H200", "baseline")
    assert expected
    measured = Measured(S01, expected.ms * 2000)
    found = [
        one for one in hold(reading_of(tmp_path / "log", measured, device=H200)) if one.side == "baseline"
    ]
    assert [round(one.ratio, 2) for one in found] == [2.0]
    [wrong] = wrongness([*found, replace(found[0], case_id="fast", measured_ms=expected.ms / 4)])
    assert (wrong.count, wrong.worst.case_id) == (2, "fast")
    assert wrong.geomean == pytest.approx(0.5**0.5, rel=0.01)


def test_a_card_that_the_model_does_not_know_is_said_so(tmp_path: Path) -> None:
    """The sentence names the device, the hint those that it knows."""
    other = reading_of(tmp_path / "log", Measured(S02), device=replace(CARD, name="NVIDIA A100"))
    with pytest.raises(UsageError, match="no estimate is known for NVIDIA A100"):
        hold(other)


def test_a_side_is_the_precision_that_ran(tmp_path: Path) -> None:
    """Our own routes are estimated as `safe` or `fast`, by choice or by lever; `fp16` and others are not."""
    row = reading_of(tmp_path / "log", Measured(S01), device=H200).rows[0]
    sides = [
        side_of(replace(row, route=route, route_ran=ran, levers=levers))
        for route, ran, levers in (
            ("safe", "stack", {}),
            ("fast", "wide", {}),
            ("wide", "wide", {"LEVER_PRECISION": "fast"}),
            ("fp16", "stack", {}),
            ("auto", "sdpa", {}),
            ("compiled", "compiled", {}),
        )
    ]
    assert sides == ["safe", "fast", "fast", "", "sdpa", ""]
