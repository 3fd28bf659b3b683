"""Dealing cases over places: the longest first, within every limit, and each case once."""

from __future__ import annotations

import random

import pytest

from builder.dealing import LATE_S, QUEUED_S, SLACK, Dealer, Held, Place, foresee, late
from builder.standing import TRIES, Standing

CASES = tuple(f"c{number}" for number in range(40))


def costs(*names: str, seconds: float = 60.0) -> dict[str, dict[str, float]]:
    """Every case takes alike everywhere."""
    return {name: dict.fromkeys(CASES, seconds) for name in names}


def spread(count: int) -> dict[str, float]:
    """Costs as sweeps have them: many short, a few long."""
    draw = random.Random(3)
    return {f"c{number}": draw.lognormvariate(4, 0.8) for number in range(count)}


def test_each_case_is_dealt_once() -> None:
    """Whatever asks, in whatever order, gets cases that nobody else has."""
    dealer = Dealer([Place("a", 3), Place("b", 2)], costs("a", "b"))
    dealer.offer(CASES)
    taken = [case for turn in range(60) for case in dealer.take("ab"[turn % 2])]
    assert sorted(taken) == sorted(CASES)
    assert dealer.waiting == []


def test_the_longest_go_first_and_parts_become_shorter() -> None:
    """The first part has the longest case; the last ones are the shortest."""
    found = foresee([Place("a", 4)], {"a": (own := spread(100))}, list(own))
    first, last = found.parts[0], found.parts[-1]
    assert max(own, key=lambda case: own[case]) in first.cases
    assert last.ends_s - last.begins_s < first.ends_s - first.begins_s


@pytest.mark.parametrize("count", [30, 300, 3000])
def test_the_end_is_near_the_best_possible(count: int) -> None:
    """What is foreseen ends within a tenth of what no dealing can beat."""
    own = spread(count)
    found = foresee([Place("a", 20)], {"a": own}, list(own))
    assert found.ends_s <= 1.1 * max(sum(own.values()) / 20, *own.values())


def test_one_who_works_alone_gets_all_at_once() -> None:
    """A second part would only cost a second start."""
    found = foresee([Place("a", start_s=90)], costs("a"), CASES)
    assert [part.cases for part in found.parts] == [CASES]


def test_a_slow_place_gets_what_does_not_hold_up_the_run() -> None:
    """A case that is done earlier by waiting for the fast place does not go to the slow one."""
    both = {"fast": dict.fromkeys(CASES, 60.0), "slow": dict.fromkeys(CASES, 6000.0)}
    found = foresee([Place("fast", 2), Place("slow")], both, CASES)
    assert {part.place for part in found.parts} == {"fast"}
    both["slow"] = dict.fromkeys(CASES, 120.0)
    found = foresee([Place("fast", 2), Place("slow")], both, CASES)
    assert {part.place for part in found.parts} == {"fast", "slow"}


def test_no_part_is_longer_than_its_place_allows() -> None:
    """A session's end cuts nothing, and a case that no session can hold is left out."""
    own = {**dict.fromkeys(CASES, 60.0), "huge": 5000.0}
    found = foresee([Place("a", 2, cards=2, part_s=900)], {"a": own}, list(own))
    assert max(part.ends_s - part.begins_s for part in found.parts) <= 900
    assert found.left_out == ("huge",)


def test_a_quota_and_a_budget_hold() -> None:
    """Device time beyond either is not planned; what is left out is the last of the plan."""
    found = foresee([Place("a", 2, left_s=600)], costs("a"), CASES)
    assert 0 < found.used_s() <= 600
    found = foresee([Place("a", 2, start_s=5)], costs("a"), CASES, budget_s=1200)
    assert 600 < found.used_s() <= 1200
    assert found.left_out == CASES[-len(found.left_out) :]


def test_what_is_known_meanwhile_is_not_dealt() -> None:
    """A case that waited once more is withdrawn when its result comes after all."""
    dealer = Dealer([Place("a")], costs("a"))
    dealer.offer(CASES[:2])
    dealer.withdraw(CASES[0])
    assert dealer.take("a") == (CASES[1],)


def test_a_closed_place_gets_nothing() -> None:
    """The cases go elsewhere."""
    dealer = Dealer([Place("a"), Place("b")], costs("a", "b"))
    dealer.offer(CASES)
    dealer.close("a")
    assert dealer.take("a") == ()
    assert dealer.take("b") == CASES


def test_a_late_part_is_late_once() -> None:
    """Only a part that runs far longer than expected is late; the latest comes first."""
    slow, fast = Held(1, "a", {"c1"}, 0.0, 30.0, runs=True), Held(2, "a", {"c2"}, 0.0, 10.0, runs=True)
    parts = [slow, fast, Held(3, "a", set(), 0.0, 1.0, runs=True), Held(4, "a", {"c4"}, 0.0, 1.0)]
    assert late(parts, SLACK * 10.0 + LATE_S - 1) == []
    assert late(parts, SLACK * 10.0 + LATE_S + 1) == [fast]
    assert late(parts, SLACK * 30.0 + LATE_S + 1) == [fast, slow]
    assert late(parts, SLACK * 30.0 + LATE_S + 1, pace=3.0) == [fast]
    assert late(parts, QUEUED_S + 1) == [fast, slow, parts[3]]
    fast.is_shared = slow.is_cut = True
    assert late(parts, SLACK * 30.0 + LATE_S + 1) == []


def standing(place_count: int = 1) -> Standing:
    """Two parts under way on the first place, which has room for three."""
    names = "ab"[:place_count]
    dealer = Dealer([Place(name, 3) for name in names], costs(*names))
    found = Standing(dealer, dict.fromkeys(names, 3), CASES[:4])
    found.hold(1, "a", CASES[:2], 0.0).runs = True
    found.hold(2, "a", CASES[2:4], 0.0)
    return found


def test_a_late_part_is_cut_once_and_shared_then() -> None:
    """What a part that was cut for being late owes waits again, and is cut no second time."""
    found = standing()
    [held] = found.late(10_000.0)
    assert found.may_cut(held)
    found.cut(held)
    found.finish(CASES[:1])
    found.release(1, CASES[:2], 100.0)
    assert found.dealer.waiting == [CASES[1]]
    again = found.hold(3, "a", [CASES[1], CASES[0]], 0.0)
    assert not found.may_cut(again)


def test_who_waits_in_a_queue_is_shared_with_another_place_only() -> None:
    """A second place in the same queue would bring nothing."""
    alone, both = standing(), standing(2)
    assert [held.part for held in alone.late(10_000.0)] == [1]
    assert [held.part for held in both.late(10_000.0)] == [1, 2]


def test_a_case_is_lost_so_often_only() -> None:
    """What every part loses is not dealt for ever, and what has a result never again."""
    found = standing()
    found.finish(CASES[3:4])
    found.release(2, CASES[2:4], 1.0)
    for part in range(3, 3 + TRIES - 1):
        taken = found.dealer.take("a")
        assert taken == CASES[2:3]
        found.hold(part, "a", taken, 0.0)
        found.release(part, taken, 1.0)
    assert found.dealer.waiting == []
