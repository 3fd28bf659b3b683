"""The least times of a card: against figures worked out by hand."""

from __future__ import annotations

import pytest

from builder.roofline import CARDS, card_of, class_of, floors
from harness.shapes import SHAPES, Shape


@pytest.mark.parametrize(
    ("device", "key", "fp32_us", "split_us", "half_us"),
    [
        ("H200", "s01", 112.3, 22.8, 7.6),
        ("H200", "s11", 112.3, 22.8, 8.1),
        ("H200", "s02", 4.0, 4.0, 4.0),
        ("H200", "s08", 6280.0, 1280.0, 425.2),
        ("H200", "s13", 1800.0, 364.6, 128.0),
        ("Tesla T4", "s01", 929.0, 347.3, 115.8),
        ("Tesla T4", "s06", 145_150.0, 54_260.0, 18_090.0),
    ],
)
def test_floors_are_those_worked_out_by_hand(
    device: str, key: str, fp32_us: float, split_us: float, half_us: float
) -> None:
    """The longest of launch, memory, exponentials and arithmetic, in each class."""
    found = floors(SHAPES[key], CARDS[device])
    times = [found[name].ms * 1e3 for name in ("fp32", "split", "half")]
    assert times == pytest.approx([fp32_us, split_us, half_us], rel=0.01)


@pytest.mark.parametrize(
    ("device", "key", "name", "bound"),
    [
        ("H200", "s02", "half", "launch"),
        ("H200", "s13", "half", "exponentials"),
        ("H200", "s08", "fp32", "arithmetic"),
        ("Tesla T4", "s12", "half", "arithmetic"),
    ],
)
def test_a_floor_says_what_sets_it(device: str, key: str, name: str, bound: str) -> None:
    """Tiny shapes wait for a launch, long ones for exponentials, wide ones for arithmetic."""
    assert floors(SHAPES[key], CARDS[device])[name].bound == bound


def test_a_network_that_computes_little_waits_for_memory() -> None:
    """A width of 1 moves more than it computes."""
    thin = Shape("x", 10_000, 128, 1, 1, 1, 1)
    assert floors(thin, CARDS["H200"])["half"].bound in ("memory", "exponentials")


@pytest.mark.parametrize(
    ("device", "known"),
    [
        ("NVIDIA H200", True),
        ("Tesla T4", True),
        ("NVIDIA H2000", False),
        ("Tesla T40", False),
        ("cpu", False),
    ],
)
def test_only_cards_with_known_peaks_have_a_floor(device: str, known: bool) -> None:
    """A name that only resembles one is another card."""
    assert (card_of(device) is not None) is known


def test_the_error_tells_the_class_of_arithmetic() -> None:
    """1e-3 is halves or TF32, 2e-5 is float32's accuracy, a half dtype is a half."""
    assert [class_of("float32", error) for error in (1e-3, 2e-5, None)] == ["half", "split", "split"]
    assert class_of("float16", 1e-9) == "half"
