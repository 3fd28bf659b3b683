"""Protocol `strict` by the real driver: what is timed, in which order, what costs a candidate its speed."""

from __future__ import annotations

import pytest

from harness.shapes import Counts
from tests.kernel.driving import Kernel, case, kernel, order

__all__ = ["kernel"]

COUNTS = Counts(2, 12, 2)


def test_sides_take_turns_and_timed_outputs_are_gated(kernel: Kernel) -> None:
    """Each block has every side once a turn, in an order of its own, and outputs of it went to the judge."""
    strict = case(protocol="strict", counts=COUNTS)
    log = kernel.run(order(strict))
    done = log.done[strict.id]
    assert done.status == "passed", done.error
    blocks = {(part.side, part.round): part for part in log.samples(strict)}
    sides = {"baseline", "baseline_again", "candidate"}
    assert set(blocks) == {("baseline_before", 0), *((side, number) for side in sides for number in (0, 1))}
    for number in (0, 1):
        places = [blocks[side, number].places for side in sides]
        assert sorted(sum(places, ())) == list(range(36))
        turns = [sorted(place // 3 for place in turn) for turn in zip(*places, strict=True)]
        assert turns == [[turn] * 3 for turn in range(12)]
    assert blocks["candidate", 0].places != blocks["candidate", 1].places
    assert (done.flags["timed_checked"], done.flags["timed_gate_share"]) == ("8", "0")


@pytest.mark.parametrize(
    ("fault", "status", "kind"),
    [
        ("reuses_output", "disqualified", "shared_output"),
        ("writes_late", "disqualified", "changed_output"),
        ("wrong_when_timed", "disqualified", "timed_output"),
    ],
)
def test_what_the_gate_did_not_see_costs_the_speed(
    kernel: Kernel, fault: str, status: str, kind: str
) -> None:
    """An output that is not the caller's own, not there in time or wrong when timed leaves no samples."""
    strict = case(fault, protocol="strict", counts=Counts(2, 4, 1))
    log = kernel.run(order(strict))
    done = log.done[strict.id]
    assert (done.status, done.error_kind) == (status, kind), done.error
    assert log.samples(strict) == []


def test_sampling_ends_when_the_interval_is_narrow_enough(kernel: Kernel) -> None:
    """A wide interval is reached in one block, of the six that a fixed number of calls would be."""
    strict = case(protocol="strict", counts=Counts(1, 100, 3))
    log = kernel.run(order(strict, target_ci=0.9))
    assert log.done[strict.id].status == "passed", log.done[strict.id].error
    [taken] = [part for part in log.samples(strict) if part.side == "candidate"]
    assert len(taken.values) == 50
