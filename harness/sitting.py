"""The driver's half of protocol `strict`: how many blocks, on which inputs, and which outputs are checked.

Standard library only. Whatever the candidate could use to prepare itself is drawn here, from the system's
entropy, and told when it is needed: seeds and orders when a block begins, and when the block's outputs are
all written, which of them the judge will see.
"""

from __future__ import annotations

import math
import secrets
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from harness.channel import (
    Block,
    Blocked,
    Build,
    Check,
    Done,
    Facts,
    Figures,
    Output,
    Repeat,
    Repeated,
    Rest,
    Show,
    Sprint,
    Sprinted,
    Timed,
    Warm,
    Warmed,
)
from harness.cores import queued_ns
from harness.events import Samples, Terms
from harness.exchange import Exchange, NotHandedOverError
from harness.limits import CaseFailureError, Watch
from harness.process import Child
from harness.shapes import Case, parse_settings
from harness.verdict import is_hidden, refuse_disowned, refuse_overfull, refuse_remembered, refuse_wrong

SEED_BITS = 48
BLOCK_TURNS = 50
_CHECKED_BLOCKS = 8  # about so many blocks have outputs checked; where there are no more, all have
_CHECKED_OUTPUTS = 2  # of such a block and side
_FEWEST_CHECKED = 8  # of a case and side: of a trick in every other call one is seen but once in 256 cases
_MOST_TURNS = 20_000
_FEWEST_TURNS = 30  # before an interval means anything
_SHARE_OF_TIME = 0.6  # of what the case has left
_FURTHER_BLOCKS, _FURTHER_TURNS = 4, 12
_SPRINT_NS = 30_000_000  # short, so that some are not interrupted
_SPRINT_CALLS = 2000
_SPRINTS = 8  # at most
_REPEAT_NS = 1_000_000_000
_REPEAT_CALLS = (2, 20)


@dataclass
class Findings:
    """What the blocks of a case have shown; times in nanoseconds, by the driver's clock and the worker's.

    `walls` has the two walls and the sum of the samples for each block, `sprint` the calls, the driver's wall
    and the worker's span.
    """

    samples: list[Samples] = field(default_factory=list)
    walls: list[tuple[int, int, int]] = field(default_factory=list)
    sprint: tuple[int, int, int] = (0, 0, 0)
    late: dict[str, int] = field(default_factory=dict)
    turns: int = 0
    shared: int = 0
    changed: int = 0
    figures: list[Figures] = field(default_factory=list)
    cut: bool = False
    facts: Facts = field(default_factory=Facts)

    def timed(self) -> Timed:
        """Return the samples, with the facts that a row has of them."""
        return Timed(tuple(self.samples), self.told())

    def told(self) -> Facts:
        """Return the worker's facts with flags for what the driver has seen."""
        late = {f"late_{side}": f"{count}/{self.turns}" for side, count in sorted(self.late.items()) if count}
        shares = [figures.gate_share for figures in self.figures]
        flags = {
            "blocks": str(len(self.walls)),
            "timed_checked": str(len(shares)),
            **({"timed_gate_share": f"{max(shares):.6g}"} if shares else {}),
            **({"cut_short": f"{self.turns} turns"} if self.cut else {}),
            **late,
        }
        return replace(self.facts, flags=self.facts.flags | flags)


class Sitting:
    """One case's strict timing, in a conversation with the worker and, for the checks, the judge."""

    def __init__(
        self,
        case: Case,
        terms: Terms,
        worker: Child,
        judge: Child,
        watch: Watch,
        exchange: Exchange,
        sides: tuple[str, ...],
        oracle_s: float,
        host_is_device: bool,
    ) -> None:
        self._case = case
        self._host_is_device = host_is_device
        self._sides = sides
        self._oracle_s = oracle_s
        self._worker = worker
        self._judge = judge
        self._watch = watch
        self._exchange = exchange
        self._target_ci = terms.target_ci
        self._pairs: list[tuple[int, int]] = []
        self._helpers = worker.helpers
        self.found = Findings()

    def carry_out(self, learn: Callable[[Facts], None]) -> Timed:
        """Time blocks until there are enough samples or most of the case's time is spent.

        `learn` is told what there is to know, also when CaseFailureError is raised because an output of a
        timed call was not the candidate's to give, or wrong.
        """
        try:
            self._time_blocks()
            self._sprint()
            self._repeat()
        finally:
            learn(self.found.told())
        return self.found.timed()

    def once_more(self) -> tuple[Samples, ...]:
        """Return the samples of a few further blocks, to see whether what was odd was of the moment."""
        before = len(self.found.samples)
        for _ in range(_FURTHER_BLOCKS):
            self._block(min(_FURTHER_TURNS, self.found.turns))
        return tuple(self.found.samples[before:])

    def _time_blocks(self) -> None:
        end = time.monotonic() + _SHARE_OF_TIME * self._watch.left()
        counts = self._case.counts.shortened(self._case.shape)
        warmed = self._worker.ask(Warm(self._sides, counts.warmup), Warmed, self._watch)
        self._helpers.settle()
        asked = counts.repeats * counts.rounds
        size = max(1, min(warmed.room, BLOCK_TURNS, -(-asked // 2)))
        while self._wants_more(asked) and not self.found.cut:
            left = min(size, asked - self.found.turns) if self.found.turns < asked else size
            self._have_checked(self._block(left), blocks=-(-asked // size))
            self.found.cut = time.monotonic() > end and self._wants_more(asked)

    def _wants_more(self, asked: int) -> bool:
        if not self._target_ci or "baseline" not in self._sides:
            return self.found.turns < asked
        if self.found.turns < _FEWEST_TURNS:
            return True
        return self.found.turns < _MOST_TURNS and half_width(self._pairs) > self._target_ci

    def _block(self, turns: int) -> Block:
        seed, order_seed = (secrets.randbits(SEED_BITS) for _ in range(2))
        block = Block(len(self.found.walls), seed, order_seed, turns, self._sides)
        self._helpers.begin()
        start = time.monotonic_ns()
        blocked = self._worker.ask(block, Blocked, self._watch)
        wall_ns = time.monotonic_ns() - start
        self._helpers.end()
        self._take(blocked, wall_ns, turns)
        return block

    def _take(self, blocked: Blocked, wall_ns: int, turns: int) -> None:
        found = self.found
        by_side = {part.side: part.values for part in blocked.samples}
        found.samples += blocked.samples
        samples_ns = sum(map(sum, by_side.values()))
        found.walls.append((wall_ns, blocked.wall_ns, samples_ns))
        found.turns += turns
        found.shared += blocked.shared
        found.changed += blocked.changed
        for side, count in blocked.late.items():
            found.late[side] = found.late.get(side, 0) + count
        found.facts = blocked.facts
        other, own = self._sides[-2:][0], self._sides[-1]  # the baseline, or the other model to compare with
        self._pairs += zip(by_side[other], by_side[own], strict=False)
        refuse_overfull(samples_ns, wall_ns)
        refuse_disowned(blocked)

    def _have_checked(self, block: Block, blocks: int) -> None:
        """Draw lots, now that all outputs are written: whether the judge looks at this block, and at which.

        A block is looked at for certain when it is the first, or when the case has few.
        """
        if block.number and secrets.randbelow(max(1, blocks)) >= _CHECKED_BLOCKS:
            return
        self._judge.ask(Build(self._case, parse_settings(self._case.harness_args).seed), Done, self._watch)
        order = block.order()
        count = _CHECKED_OUTPUTS if self._oracle_s else max(_CHECKED_OUTPUTS, -(-_FEWEST_CHECKED // blocks))
        for side in self._sides:
            if not side.startswith("baseline"):
                places = [position for position, name in enumerate(order) if name == side]
                for position in secrets.SystemRandom().sample(places, min(count, len(places))):
                    self._check(position, block.seed + position)
        self._judge.ask(Rest(), Done, self._watch)

    def _check(self, position: int, seed: int) -> None:
        output = self._worker.ask(Show(position, self._exchange.folders), Output, self._watch)
        check = Check(seed, taken(self._exchange, output), output.dtype, self._oracle_s)
        figures = self._judge.ask(check, Figures, self._watch)
        self.found.figures.append(figures)
        refuse_wrong(figures)

    def _sprint(self) -> None:
        """Have the candidate called back to back, and time that with a clock it cannot reach.

        Raises CaseFailureError when on a CPU that takes far longer than its samples say. So does the
        baseline's where the host has other work to do; it is asked in the same minute, several times.
        """
        lost: dict[str, float] = {}  # how many times as long as its samples a side took, at best
        for _ in range(_SPRINTS):
            for side in ("candidate", *(["baseline"] if "baseline" in self._sides else [])):
                lost[side] = min(self._sprinted(side), lost.get(side, math.inf))
            if not self._host_is_device or not is_hidden(lost["candidate"], lost.get("baseline", 1.0)):
                return
        words = f"calls in a row took {lost['candidate']:.3g} times as long as the samples say"
        raise CaseFailureError("disqualified", "clock", words)

    def _sprinted(self, side: str) -> float:
        """Return how many times as long as its samples say a side's calls take in a row.

        While others have the core the worker hides nothing, and that time does not count.
        """
        sample_ns = self._median_ns(side)
        calls = min(max(1, round(_SPRINT_NS / sample_ns)), _SPRINT_CALLS)
        order = Sprint(side, calls, secrets.randbits(SEED_BITS))
        start, queued = time.monotonic_ns(), queued_ns(self._worker.pid)
        sprinted = self._worker.ask(order, Sprinted, self._watch)
        wall_ns = time.monotonic_ns() - start - (queued_ns(self._worker.pid) - queued)
        if side == "candidate":
            self.found.sprint = (calls, wall_ns, sprinted.span_ns)
        return wall_ns / (calls * sample_ns)

    def _repeat(self) -> None:
        """Have inputs come again, which they never do in a block; raise CaseFailureError if one is known.

        A call of seconds, which few can be had of, is spared.
        """
        if self._median_ns() > _REPEAT_NS:
            return
        least, most = _REPEAT_CALLS
        calls = min(max(least, round(_REPEAT_NS / self._median_ns())), most)
        order = Repeat("candidate", calls, secrets.randbits(SEED_BITS))
        repeated = self._worker.ask(order, Repeated, self._watch)
        refuse_remembered(repeated.fresh, repeated.again)

    def _median_ns(self, side: str = "candidate") -> float:
        medians = [statistics.median(part.values) for part in self.found.samples if part.side == side]
        return max(1.0, statistics.median(medians))


def taken(exchange: Exchange, output: Output) -> str:
    """Take an output over from the worker; return its path. Raises CaseFailureError for what is none."""
    try:
        return exchange.take(output.path)
    except NotHandedOverError as problem:
        raise CaseFailureError("disqualified", "forged_output", str(problem)) from problem


def half_width(pairs: Sequence[tuple[int, int]]) -> float:
    """Return half the width of a 95 % interval of the pairs' median ratio, as a share of it.

    By order statistics, with no assumption on the distribution: the ranks 0.98 sqrt(n) below and above the
    middle. A rough figure, to know when to stop; the host's bootstrap is the one that is shown.
    """
    ratios = sorted(a / b for a, b in pairs)
    middle, reach = (len(ratios) - 1) / 2, 0.98 * len(ratios) ** 0.5
    low, high = max(0, int(middle - reach)), min(len(ratios) - 1, int(middle + reach + 1))
    return (ratios[high] - ratios[low]) / 2 / statistics.median(ratios)
