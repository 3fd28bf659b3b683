"""The strict stopwatch on a GPU: what its pair of events holds, and what it does not let pass."""

from __future__ import annotations

from statistics import median

import pytest
import torch
from torch import Tensor, nn

from harness import contract, switches
from harness.channel import Block, Blocked
from harness.drawing import draw
from harness.shapes import SHAPES, Case
from harness.stopwatch import watch_of
from harness.strict import Side, Strict
from harness.timing import benchmark_once

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")

DEVICE = torch.device("cuda")
CASE = Case(SHAPES["s02"], protocol="strict")
TURNS = 20


class Many(nn.Module):
    """A hundred launches of next to no work: the host is slower than the device."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x [B,S,D], mask [B,S] -> [B,S,D]."""
        for _ in range(100):
            x = x + 1.0
        return x


class Aside(nn.Module):
    """Computes on a stream of its own and does not wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x [B,S,D], mask [B,S] -> [B,S,D], some time later."""
        y = torch.empty_like(x)
        with torch.cuda.stream(self.stream):
            torch.cuda._sleep(20_000_000)  # type: ignore[no-untyped-call]
            y.copy_(x)
        return y


def timed(candidate: nn.Module) -> Blocked:
    """A block of the baseline and a candidate."""
    drawn = draw(contract, CASE, 1, DEVICE)
    drawn.placed(drawn.baseline)
    sides = {"baseline": drawn.baseline, "candidate": candidate}
    now = switches.read()
    timing = Strict(drawn, {name: Side(model, now) for name, model in sides.items()}, watch_of(DEVICE))
    timing.warm(5)
    return timing.block(Block(0, 100, 7, TURNS, tuple(sides)))


def times_ms(blocked: Blocked, side: str) -> list[float]:
    """One side's times in milliseconds."""
    [part] = [part for part in blocked.samples if part.side == side]
    return [ns / 1e6 for ns in part.values]


def test_the_host_is_not_in_the_pair() -> None:
    """A hundred launches cost less than by the contest's timer, where the device waits for each."""
    blocked = timed(Many())
    x, mask = torch.zeros(1, 128, 128, device=DEVICE), torch.ones(1, 128, dtype=torch.bool, device=DEVICE)
    by_contest = median(benchmark_once(Many(), x, mask, 50, DEVICE))
    assert median(times_ms(blocked, "candidate")) < by_contest
    assert blocked.late["candidate"] < TURNS // 2


def test_work_aside_is_seen() -> None:
    """In most turns what a side stream has not finished when the call ends is not in the copy taken then."""
    # Where the stream of the timing waits for the host, the copy comes later and may find the work done.
    assert timed(Aside()).changed >= TURNS // 2


def test_the_baseline_takes_as_long_as_itself() -> None:
    """The baseline in the candidate's place takes as long as in its own, within 5 %."""
    drawn = draw(contract, CASE, 1, DEVICE)
    blocked = timed(drawn.placed(drawn.baseline))
    assert median(times_ms(blocked, "candidate")) == pytest.approx(
        median(times_ms(blocked, "baseline")), rel=0.05
    )
