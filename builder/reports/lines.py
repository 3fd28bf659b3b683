"""The rows of a report, each with an anchor and a label, and their totals: never one average of unlike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median

from builder import stats
from builder.reading import Reading
from builder.records import CaseRecord
from builder.results import Row, cell, counts
from builder.roofline import Floor, card_of, class_of, floors
from builder.stats import Comparison, Word
from builder.terminal import one_line

_RUN_CHARACTERS = 6  # a run id's own end tells it from others of the day


@dataclass(frozen=True)
class Line:
    """One row. `anchor` names it on the page; `label` is short and no other line's; `retracted` says why.

    `device` is the row's; one that met none, as it was not run, belongs to the run's only device.
    """

    run: str
    record: CaseRecord
    row: Row
    device: str
    anchor: str = ""
    label: str = ""
    retracted: str = ""

    @property
    def counts(self) -> bool:
        """Whether its figures may be part of a total or a picture."""
        return not self.row.is_simulated and not self.retracted

    @property
    def comparison(self) -> Comparison | None:
        """Its speed-up, if it has one."""
        row = self.row
        if not (self.counts and row.speedup and row.speedup_low and row.speedup_high):
            return None
        return Comparison(row.speedup, row.speedup_low, row.speedup_high, row.noise_floor)

    @property
    def is_gradeable(self) -> bool:
        """Whether a speed-up could exist: the baseline has room at this size."""
        alone = self.row.status == "passed" and self.row.baseline_median_ms is None
        return self.row.status != "infeasible" and not alone and not self.retracted

    @property
    def settings(self) -> str:
        """The contest's settings that it was asked to run with."""
        return " ".join(self.record.case.harness_args)

    @cached_property
    def floors(self) -> dict[str, Floor]:
        """The floors of its device by class of arithmetic; empty where none is known."""
        card = card_of(self.row.device) if self.counts else None
        return floors(self.record.case.shape, card) if card else {}

    @property
    def floor(self) -> Floor | None:
        """The floor of the arithmetic that its error speaks of."""
        return self.floors.get(class_of(self.row.dtype, self.row.max_abs))

    @property
    def is_impossible(self) -> bool:
        """Whether it takes less than the least that any arithmetic needs: then its time is wrong."""
        least = self.floors["half"].ms if self.floors else 0.0
        return bool(self.row.median_ms and self.row.median_ms < least)

    @property
    def times_floor(self) -> float | None:
        """How many times its floor it takes."""
        return self.row.median_ms / self.floor.ms if self.floor and self.row.median_ms else None


# What lines may differ in: only what does differ in a report is part of its labels.
_PARTS: dict[str, Callable[[Line], str]] = {
    "run": lambda line: line.run[-_RUN_CHARACTERS:],
    "route": lambda line: line.row.route,
    "levers": lambda line: cell(line.row.levers).replace("LEVER_", ""),
    "settings": lambda line: line.settings,
    "dtype": lambda line: line.row.dtype,
    "protocol": lambda line: line.row.protocol,
    "device": lambda line: line.device,
}


def lines_of(readings: Iterable[Reading]) -> list[Line]:
    """Return every row of every run with its anchor and label."""
    bare = [line for reading in readings for line in _bare(reading)]
    varying = [tell for tell in _PARTS.values() if len({tell(line) for line in bare}) > 1]
    met: Counter[str] = Counter()
    found = []
    for number, line in enumerate(bare, 1):
        words = [line.row.shape, *(tell(line) for tell in varying)]
        label = one_line(" · ".join(filter(None, words)))
        met[label] += 1
        again = f" ({met[label]})" if met[label] > 1 else ""
        found.append(replace(line, anchor=f"row-{number}", label=label + again))
    return found


def _bare(reading: Reading) -> Iterator[Line]:
    retracted = reading.retracted
    devices = {row.device for row in reading.rows} - {""}
    only = devices.pop() if len(devices) == 1 else ""
    for record, row in reading.cases:
        why = one_line(retracted.why(row.case_id))
        yield Line(reading.name, record, row, row.device or only, retracted=why)


@dataclass(frozen=True)
class Group:
    """Lines that may be averaged: one run, device, route, setting, dtype and protocol."""

    lines: tuple[Line, ...]

    @property
    def words(self) -> list[str]:
        """What the lines have in common."""
        line = self.lines[0]
        row = line.row
        levers = cell(row.levers)
        device = line.device or "no device"
        told = [row.route, levers, line.settings, row.dtype, row.protocol, device, f"run {line.run}"]
        return [one_line(word) for word in told if word]

    @property
    def gradeable(self) -> list[Line]:
        """The lines that could have a speed-up."""
        return [line for line in self.lines if line.is_gradeable]

    @property
    def alone(self) -> list[Line]:
        """The lines that passed where there is no baseline to be faster than."""
        passed = [line for line in self.lines if line.row.status == "passed" and not line.retracted]
        return [line for line in passed if not line.is_gradeable]

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """The speed-ups there are."""
        return [found for line in self.lines if (found := line.comparison)]

    @property
    def geomean(self) -> Comparison | None:
        """Their geometric mean with its interval."""
        return stats.together(self.comparisons) if self.comparisons else None

    @property
    def median(self) -> float:
        """Their median."""
        return median(found.ratio for found in self.comparisons)

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest."""
        ratios = [found.ratio for found in self.comparisons]
        return min(ratios), max(ratios)

    @property
    def verdicts(self) -> dict[Word, int]:
        """How many lines have each verdict, in the order of the words."""
        told = Counter(found.word for found in self.comparisons)
        return {word: told[word] for word in Word if told[word]}

    @property
    def statuses(self) -> dict[str, int]:
        """How many lines have each status."""
        kept = counts(line.row for line in self.lines if not line.retracted)
        retracted = sum(bool(line.retracted) for line in self.lines)
        return {**kept, "retracted": retracted} if retracted else kept

    @property
    def is_simulated(self) -> bool:
        """Whether its device was made up."""
        return self.lines[0].row.is_simulated


def groups_of(lines: Sequence[Line]) -> list[Group]:
    """Return the lines in groups, in the order in which they come."""
    found: dict[tuple[str, ...], list[Line]] = {}
    for line in lines:
        key = (line.run, *(tell(line) for tell in _PARTS.values()), line.row.harness_sha256)
        found.setdefault(key, []).append(line)
    return [Group(tuple(ours)) for ours in found.values()]
