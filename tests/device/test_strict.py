"""The worker's half of `strict`, without a driver: inputs, switches, ownership, and when enough is enough."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from harness import contract, switches
from harness.channel import Block, Sprint
from harness.drawing import Drawn, draw
from harness.shapes import SHAPES, Case
from harness.sitting import half_width
from harness.stopwatch import HostWatch
from harness.strict import Side, Strict, same_bits

CASE = Case(SHAPES["t03"], protocol="strict")


class Spy(nn.Module):
    """A side that remembers each input and what `look` returned at the time."""

    def __init__(self, answer: Callable[[Tensor], Tensor], look: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.answer, self.look = answer, look
        self.inputs: list[Tensor] = []
        self.addresses: list[int] = []
        self.seen: list[object] = []

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x [B,S,D], mask [B,S] -> [B,S,D]."""
        self.inputs.append(x.clone())
        self.addresses.append(x.data_ptr())
        self.seen.append(self.look())
        return self.answer(x)


@pytest.fixture
def drawn() -> Drawn:
    """The tiny case's baseline and inputs."""
    return draw(contract, CASE, 1, torch.device("cpu"))


def strict(drawn: Drawn, candidate: nn.Module, baseline: nn.Module | None = None) -> Strict:
    """The two sides, warm."""
    sides = {"baseline": Side(baseline or drawn.baseline, switches.read())}
    timing = Strict(drawn, sides | {"candidate": Side(candidate, switches.read())}, HostWatch())
    timing.warm(1)
    return timing


def block(turns: int = 4, seed: int = 100) -> Block:
    """A block of both sides."""
    return Block(0, seed, 7, turns, ("baseline", "candidate"))


def test_every_call_has_the_input_of_its_place(drawn: Drawn) -> None:
    """The call at position p gets the input that anybody can draw from the block's seed plus p."""
    candidate = Spy(torch.clone)
    timing = strict(drawn, candidate)
    candidate.inputs.clear()
    timing.block(block())
    places = [position for position, name in enumerate(block().order()) if name == "candidate"]
    for x, position in zip(candidate.inputs, places, strict=True):
        assert torch.equal(x, drawn.inputs(100 + position)[0])
        assert torch.equal(timing.output(position), x)


def test_the_same_memory_has_other_content(drawn: Drawn) -> None:
    """Inputs take turns in a few places, none of which is new at each call."""
    candidate = Spy(torch.clone)
    timing = strict(drawn, candidate)
    candidate.addresses.clear()
    timing.block(block(12))
    assert 1 < len(set(candidate.addresses)) <= 3


def test_each_side_runs_under_its_own_switches(drawn: Drawn) -> None:
    """What a candidate switches in a call holds for its own next call and never for the baseline's."""

    def sabotage(x: Tensor) -> Tensor:
        torch.backends.cuda.matmul.allow_tf32 = True
        return x.clone()

    def state() -> object:
        return torch.backends.cuda.matmul.allow_tf32

    torch.backends.cuda.matmul.allow_tf32 = False
    before = switches.read()
    try:
        baseline, candidate = Spy(torch.clone, state), Spy(sabotage, state)
        strict(drawn, candidate, baseline).block(block())
        assert baseline.seen == [False] * len(baseline.seen)
        assert candidate.seen == [False] + [True] * (len(candidate.seen) - 1)
        assert torch.backends.cuda.matmul.allow_tf32
    finally:
        assert switches.put(before) == []


def test_only_the_switches_that_differ_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """A switch that stands as it was read is left alone: setting it may have torch import its compiler."""
    set_: list[object] = []
    monkeypatch.setitem(
        switches._SWITCHES, "deterministic", (torch.are_deterministic_algorithms_enabled, set_.append)
    )
    before = switches.read()
    torch.set_float32_matmul_precision("medium")
    assert switches.put(before) == []
    assert set_ == []
    assert switches.put({**before, "deterministic": True}) == ["deterministic"]
    assert set_ == [True]


def test_outputs_in_one_place_are_counted(drawn: Drawn) -> None:
    """Outputs that share memory, and those that are no longer what they were, are told apart."""
    buffer = torch.zeros_like(drawn.inputs(0)[0])
    shared = strict(drawn, Spy(buffer.copy_)).block(block(4))
    assert (shared.shared, shared.changed) == (4, 3)
    returned = strict(drawn, Spy(lambda x: x)).block(block(1))
    assert returned.shared == 1
    own = strict(drawn, Spy(torch.clone)).block(block(4))
    assert (own.shared, own.changed) == (0, 0)


def test_nan_is_the_same_as_itself() -> None:
    """Outputs are compared by their bits."""
    odd = torch.tensor([float("nan"), -0.0])
    assert same_bits(odd, odd.clone())
    assert not same_bits(odd, torch.tensor([float("nan"), 0.0]))


def test_a_sprint_calls_one_side_only(drawn: Drawn) -> None:
    """Calls back to back are as many as asked, each of them timed as part of the whole."""
    candidate = Spy(torch.clone)
    timing = strict(drawn, candidate)
    candidate.inputs.clear()
    assert timing.sprint(Sprint("candidate", 7, 1)).span_ns > 0
    assert len(candidate.inputs) == 7


def test_half_width_of_pairs() -> None:
    """Ratios 1.00 to 1.99 have their 95 % ranks about 10 from the middle; constant ones have no width."""
    assert half_width([(100 + n, 100) for n in range(100)]) == pytest.approx(0.1 / 1.495, rel=0.1)
    assert half_width([(200, 100)] * 50) == 0.0
