"""Two runs, paired by case: which cases became faster or slower, by how much, and whether noise explains it.

The verdict is on the candidate's own milliseconds: a ratio to the baseline moves when the baseline does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from builder import stats
from builder.errors import Exit, worst
from builder.reading import Reading
from builder.records import CaseRecord
from builder.results import Row, cell
from builder.stats import Comparison, Word

# What the sides of a pair may differ in only when that is asked for, and how a side tells it.
KINDS: dict[str, Callable[[CaseRecord, Row], str]] = {
    "harness": lambda _, row: row.harness_sha256[:12],
    "protocol": lambda _, row: row.protocol,
    "dtype": lambda _, row: row.dtype,
    "device": lambda _, row: row.device,
    "route": lambda _, row: row.route,
    "levers": lambda _, row: cell(row.levers),
    "settings": lambda record, _: " ".join(record.case.harness_args),
}
# With these the baseline's own work differs too.
_OTHER_BASELINE = {"dtype", "settings"}
# What bears on times too, and is worth a word.
_NOTED = ("torch", "triton", "driver", "python")


# Two processes of one code, on one card with a baseline that stood still, differed by up to 4 % on an H200.
PROCESSES = 0.05


@dataclass(frozen=True)
class Across(Comparison):
    """A comparison of samples from two processes: no difference is told that two processes alone may make."""

    @property
    def beyond(self) -> float:
        """The share by which the sides must differ to be called different."""
        return max(self.threshold, PROCESSES)

    @property
    def word(self) -> Word:
        """The decision."""
        word = super().word
        is_near = abs(math.log(self.ratio)) <= math.log1p(PROCESSES)
        return Word.UNTOLD if is_near and word in (Word.FASTER, Word.SLOWER) else word


@dataclass(frozen=True)
class Side:
    """One run's part of a pair."""

    record: CaseRecord
    row: Row
    retracted: str = ""

    @property
    def is_timed(self) -> bool:
        """Whether it passed its gate and has a time."""
        return self.row.status == "passed" and bool(self.row.median_ms)

    @property
    def baseline_ms(self) -> float | None:
        """The baseline's median."""
        return self.row.baseline_median_ms

    def floors(self) -> Iterator[float]:
        """Yield what this side knows of its noise, as shares."""
        candidate = self.record.samples.get("candidate", ())
        yield from (floor for floor in (self.row.noise_floor, stats.noise_floor(candidate)) if floor)


@dataclass(frozen=True)
class Pair:
    """The same case in both runs. `differs` names what it is not the same in, with both sides' words."""

    a: Side
    b: Side
    differs: dict[str, tuple[str, str]]
    across: frozenset[str] = frozenset()

    @property
    def refusal(self) -> str:
        """Why the two are not compared; empty when they are."""
        if self.a.row.is_simulated or self.b.row.is_simulated:
            return "a simulated device measures nothing"
        if because := self.a.retracted or self.b.retracted:
            return f"retracted: {because}"
        unasked = [kind for kind in self.differs if kind not in self.across]
        said = [f"{kind}: {' ≠ '.join(text or 'none' for text in self.differs[kind])}" for kind in unasked]
        return "; ".join(said)

    @property
    def lost(self) -> bool:
        """Whether the case passed in the first run and failed in the second."""
        return self.a.is_timed and self.b.row.status in (
            "failed_gate",
            "error",
            "oom",
            "timeout",
            "disqualified",
        )

    @property
    def reason(self) -> str:
        """Why there is no verdict although nothing is refused; empty when there is one."""
        if "device" in self.differs:
            return "other device, no verdict"
        untimed = [side.row.status for side in (self.a, self.b) if not side.is_timed]
        return f"{self.a.row.status} → {self.b.row.status}" if untimed else ""

    @property
    def drift(self) -> float:
        """Twice what the baseline moved in the candidate's direction, as a share.

        Its code is the same in both runs: what it moved by is the machine. That may have moved the candidate
        as far again, since what waits for the host and what waits for the card move differently.
        """
        sides = (self.a.baseline_ms, self.b.baseline_ms, self.a.row.median_ms, self.b.row.median_ms)
        if _OTHER_BASELINE & self.differs.keys() or not all(sides):
            return 0.0
        baseline, candidate = (math.log(a / b) for a, b in (sides[:2], sides[2:]) if a and b)
        return math.expm1(stats.SURE * abs(baseline)) if baseline * candidate > 0 else 0.0

    @cached_property
    def ratios(self) -> list[float]:
        """The first side's median over the second's in each resampling."""
        first, second = (side.record.samples["candidate"] for side in (self.a, self.b))
        return stats.resampled(first, second, self.a.row.case_id)

    @cached_property
    def found(self) -> Across | None:
        """How many times as fast the second side is, with its interval and noise; None without a verdict."""
        a, b = self.a.row.median_ms, self.b.row.median_ms
        if self.refusal or self.reason or not (a and b):
            return None
        ends = stats.interval(self.ratios)
        noise = Across(a / b, *ends, max([*self.a.floors(), *self.b.floors()], default=None))
        # what is left when the machine's part is taken away must still be beyond the noise
        return replace(noise, floor=(1 + self.drift) * (1 + noise.threshold) - 1) if self.drift else noise

    @property
    def moved_ms(self) -> tuple[float, float] | None:
        """The baseline's and the candidate's part in a change of speed-up, in milliseconds."""
        a, b = self.a.row, self.b.row
        if not (a.baseline_median_ms and b.baseline_median_ms and a.median_ms and b.median_ms):
            return None
        return b.baseline_median_ms - a.baseline_median_ms, b.median_ms - a.median_ms

    def slow_down(self) -> tuple[float, float]:
        """The share of time that the second side takes more, and the most that noise may hide."""
        assert self.found
        told = -math.log(self.found.ratio)
        return math.expm1(told), math.expm1(told + math.log1p(self.found.beyond))


@dataclass(frozen=True)
class Compared:
    """Two runs side by side. `only_a` and `only_b` are cases without a partner."""

    a: Reading
    b: Reading
    pairs: tuple[Pair, ...]
    only_a: tuple[Row, ...] = ()
    only_b: tuple[Row, ...] = ()

    @property
    def told(self) -> list[Pair]:
        """The pairs that have a verdict."""
        return [pair for pair in self.pairs if pair.found]

    @cached_property
    def geomean(self) -> Across | None:
        """The geometric mean of the pairs' ratios: resampled for its interval, its floor their mean floor."""
        found = [pair.found for pair in self.pairs if pair.found]
        if not found:
            return None
        draws = [stats.geomean(values) for values in zip(*(pair.ratios for pair in self.told), strict=True)]
        floor = stats.geomean([1 + (one.floor or 0.0) for one in found]) - 1
        return Across(stats.geomean([one.ratio for one in found]), *stats.interval(draws), floor)

    def regressions(self, threshold: float) -> list[Pair]:
        """The cases that are slower by more than a share, or no longer pass."""
        return [
            pair
            for pair in self.pairs
            if not pair.refusal
            and (pair.lost or (_is(pair, Word.SLOWER) and pair.slow_down()[0] > threshold))
        ]

    def untold(self, threshold: float) -> list[Pair]:
        """The cases of which nobody knows whether they are slower by more than a share."""
        return [pair for pair in self.pairs if not pair.lost and _is_untold(pair, threshold)]

    def exit_code(self, threshold: float) -> Exit:
        """Return 3 for a regression beyond `threshold`, else 8 when something cannot be told, else 0."""
        gone = [row for row in self.only_a if row.median_ms]
        missing = self.untold(threshold) or gone or not self.pairs
        return worst(
            Exit.CASE_FAILED if self.regressions(threshold) else Exit.OK,
            Exit.CANNOT_TELL if missing else Exit.OK,
        )

    def notes(self) -> list[str]:
        """Say what else differs and bears on times."""
        said = []
        for name in _NOTED:
            sides = [{str(getattr(row, name)) for row in run.rows if row.device} for run in (self.a, self.b)]
            if sides[0] != sides[1]:
                words = [" and ".join(sorted(filter(None, side))) or "none" for side in sides]
                said.append(f"{name} {words[0]} → {words[1]}")
        return said


def _is(pair: Pair, word: Word) -> bool:
    return pair.found is not None and pair.found.word is word


def _is_untold(pair: Pair, threshold: float) -> bool:
    if pair.found is None:
        return pair.a.is_timed
    return pair.found.word is Word.UNTOLD and pair.slow_down()[1] > threshold


def compare(a: Reading, b: Reading, across: Iterable[str] = ()) -> Compared:
    """Pair two runs' cases: first those of the same id, then those whose sizes are the same.

    `across` names of `KINDS` what the sides of a pair may differ in.
    """
    allowed = frozenset(across)
    left = [Side(record, row, a.retracted.why(row.case_id)) for record, row in a.cases]
    right = {row.case_id: Side(record, row, b.retracted.why(row.case_id)) for record, row in b.cases}
    matched: dict[str, Side] = {}
    for side in left:
        if side.row.case_id in right:
            matched[side.row.case_id] = right.pop(side.row.case_id)
    for side in left:
        if side.row.case_id not in matched and (partner := _nearest(side, list(right.values()))):
            matched[side.row.case_id] = right.pop(partner.row.case_id)
    pairs = [_pair(side, matched[side.row.case_id], allowed) for side in left if side.row.case_id in matched]
    alone = tuple(side.row for side in left if side.row.case_id not in matched)
    return Compared(a, b, tuple(pairs), alone, tuple(side.row for side in right.values()))


def _pair(a: Side, b: Side, across: frozenset[str]) -> Pair:
    return Pair(a, b, _differences(a, b), across)


def _differences(a: Side, b: Side) -> dict[str, tuple[str, str]]:
    """What two sides differ in. A side that never met a device has none to differ in."""
    told = {kind: (tell(a.record, a.row), tell(b.record, b.row)) for kind, tell in KINDS.items()}
    unmet = {kind for kind in ("device", "harness") if not all(told[kind])}
    return {kind: sides for kind, sides in told.items() if sides[0] != sides[1] and kind not in unmet}


def _nearest(side: Side, others: Sequence[Side]) -> Side | None:
    """Return the one side of the same sizes that differs in the least; None when there is not one alone."""
    same = [other for other in others if other.record.case.shape == side.record.case.shape]
    distances = [len(_differences(side, other)) for other in same]
    nearest = [other for other, far in zip(same, distances, strict=True) if far == min(distances)]
    return nearest[0] if len(nearest) == 1 else None
