"""What speaks against times: wide bands for an honest case on a noisy host, and no way around them."""

import random

import pytest
import torch

from harness.channel import Blocked, Figures
from harness.events import Samples, pack_ns
from harness.limits import CaseFailureError
from harness.strict import overlapping
from harness.verdict import (
    is_hidden,
    refuse_disowned,
    refuse_overfull,
    refuse_remembered,
    refuse_slowed,
    refuse_wrong,
    slowdown,
)


def part(side: str, *ns: int, number: int = 0) -> Samples:
    """One round's samples of a side."""
    return Samples("id", side, number, 0, pack_ns(ns))


def kind_of(act: object, *given: object) -> str:
    """The kind that an act is refused for; empty when it is not."""
    try:
        act(*given)  # type: ignore[operator]
    except CaseFailureError as failure:
        return f"{failure.status} {failure.kind}"
    return ""


def test_the_calmest_round_is_held_against_the_slower_of_two_quiet_times() -> None:
    """One round without interference is enough to clear a candidate; so is a slow process without one."""
    before = part("baseline_before", *[100] * 20)
    rounds = [part("baseline", *[310] * 20), part("baseline", *[290] * 20, number=1)]
    assert slowdown([before, *rounds]) == pytest.approx(2.9)
    assert slowdown([before, *rounds], [part("baseline_before", *[200] * 20)]) == pytest.approx(1.45)
    assert slowdown(rounds) == slowdown([before]) == 0.0


def test_interference_in_most_calls_is_not_the_candidates() -> None:
    """A host that disturbs three calls in four leaves the quiet ones, which are what counts."""
    draw = random.Random(5)
    noisy = [100 + (draw.random() < 0.75) * draw.randrange(50, 5000) for _ in range(100)]
    ratio = slowdown([part("baseline_before", *[100] * 30), part("baseline", *noisy)])
    assert ratio == 1.0 and kind_of(refuse_slowed, ratio, 1.3) == ""
    assert kind_of(refuse_slowed, 1.31, 1.3) == "disqualified slowed_baseline"


def test_noise_is_never_taken_for_memory() -> None:
    """Times of one kind, half of them slow for an hour on end, are not called remembered."""
    draw = random.Random(7)
    for _ in range(2000):
        ns = [draw.choice((1000, 9000)) + draw.randrange(300) for _ in range(40)]
        assert kind_of(refuse_remembered, ns[::2], ns[1::2]) == ""


@pytest.mark.parametrize("count", [2, 5, 20])
def test_memory_is_found_however_few_the_calls(count: int) -> None:
    """An answer in a tenth of the time is a remembered one, with a few calls disturbed on both sides."""
    fresh, again = [1000 + n for n in range(count)], [100 + n for n in range(count)]
    if count >= 20:
        again[:5] = [5000] * 5
    assert kind_of(refuse_remembered, fresh, again) == "disqualified remembered_output"


def test_samples_cannot_add_up_to_more_than_the_wall() -> None:
    """A block's samples are inside of its wall, give or take a round trip."""
    assert kind_of(refuse_overfull, 104_000_000, 100_000_000) == ""
    assert kind_of(refuse_overfull, 120_000_000, 100_000_000) == "disqualified clock"


def test_hidden_time_is_far_more_of_one_side_than_of_the_other() -> None:
    """What holds up both sides' calls in a row is the host's; what holds up one alone is hidden."""
    assert not is_hidden(4.0, 3.0) and not is_hidden(1.4, 0.3)
    assert is_hidden(10.0, 1.0) and is_hidden(2.4, 0.4)


def figures(failed: int, share: float) -> Figures:
    """Figures of an output of a million elements."""
    return Figures(not failed, failed, 1_000_000, 1.0, 1.0, share)


def test_the_edge_of_a_budget_is_no_trick() -> None:
    """A timed output a little outside fails the gate; one that is far off is disqualified."""
    assert kind_of(refuse_wrong, figures(0, 0.9)) == ""
    assert kind_of(refuse_wrong, figures(3, 1.4)) == "failed_gate timed_gate"
    assert kind_of(refuse_wrong, figures(3, 900.0)) == "failed_gate timed_gate"
    assert kind_of(refuse_wrong, figures(400_000, 60.0)) == "disqualified timed_output"


def test_an_output_is_the_callers_own() -> None:
    """Shared and changed outputs of timed calls are each a reason."""
    assert kind_of(refuse_disowned, Blocked((), 1, {}, 0, 0)) == ""
    assert kind_of(refuse_disowned, Blocked((), 1, {}, 2, 0)) == "disqualified shared_output"
    assert kind_of(refuse_disowned, Blocked((), 1, {}, 0, 1)) == "disqualified changed_output"


def test_parts_of_one_allocation_are_not_shared() -> None:
    """Memory that touches is shared, parts side by side are not, whatever their strides."""
    whole = torch.zeros(4, 6)
    rows = list(whole.unbind())
    assert overlapping(rows, []) == 0
    assert overlapping([*rows, rows[1]], []) == 2
    assert overlapping([whole.t(), torch.zeros(3)], [rows[2]]) == 1
    assert overlapping([whole, rows[0], rows[3]], []) == 3
