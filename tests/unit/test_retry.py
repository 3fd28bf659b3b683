"""Asking again: how often, after how long, and what is never asked again."""

from __future__ import annotations

import pytest

from builder import retry
from builder.errors import DeniedError, FerryError, InfrastructureError, RefusedThereError
from tests.unit.clocks import Hourglass


class Place:
    """Answers after some errors."""

    def __init__(self, *errors: FerryError) -> None:
        self.errors = list(errors)
        self.asked = 0

    def ask(self) -> str:
        """Raise the next error, if there is one left."""
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


def test_pauses_grow_and_differ() -> None:
    """Each pause is between half and all of twice the one before, and two hosts do not keep step."""
    clock, place = Hourglass(), Place(*[InfrastructureError("503")] * 3)
    assert retry.read(place.ask, clock) == "answer"
    assert all(most / 2 <= nap <= most for nap, most in zip(clock.naps, (2.0, 4.0, 8.0), strict=True))
    other = Hourglass()
    retry.read(Place(*[InfrastructureError("503")] * 3).ask, other)
    assert clock.naps != other.naps


def test_retry_after_is_obeyed() -> None:
    """A place that asks to be left alone is left alone for so long."""
    clock = Hourglass()
    retry.read(Place(InfrastructureError("429", retry_after_s=90.0)).ask, clock)
    assert clock.naps == [90.0]


@pytest.mark.parametrize(
    ("error", "asked"),
    [(InfrastructureError("503"), 4), (DeniedError("404"), 1), (RefusedThereError("no"), 1)],
)
def test_what_is_final_is_not_asked_again(error: FerryError, asked: int) -> None:
    """An answer is an answer; only its lack is asked about again, four times in all."""
    place = Place(*[error] * 10)
    with pytest.raises(type(error)):
        retry.read(place.ask, Hourglass())
    assert place.asked == asked
