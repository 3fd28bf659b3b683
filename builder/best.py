"""The champion of each shape and device: the fastest row that passed and still counts, and its margin."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from builder import index, retractions, runs
from builder.errors import FerryError
from builder.runs import Run
from builder.stats import Comparison, Word
from harness.events import is_simulated

Cells = dict[str, str]
_NUMBERS = ("median_ms", "speedup", "speedup_low", "speedup_high", "noise_floor")


@dataclass(frozen=True)
class Entrant:
    """A row that may be a champion. `run` is its folder, `settings` are the contest script's options."""

    run: Path
    cells: Cells
    settings: str

    @property
    def kind(self) -> tuple[str, ...]:
        """What must be the same for two rows to be rivals."""
        names = ("shape", "batch", "seq_len", "d_model", "heads", "ffn_dim", "layers", "dtype", "protocol")
        return (
            *(self.cells[name] for name in names),
            self.cells["device"],
            self.cells["tf32"],
            self.settings,
        )

    @property
    def candidate(self) -> tuple[str, ...]:
        """What makes two rows the same candidate, measured twice."""
        return self.cells["route"], self.cells["levers"], self.cells["model_sha256"]

    @property
    def unsealed(self) -> str:
        """Why its seal proves nothing; empty where it holds, and for runs that are older than seals."""
        flags = dict(flag.partition("=")[::2] for flag in self.cells["flags"].split(";"))
        return flags.get("unsealed", "")

    def number(self, name: str) -> float:
        """Return a figure; not a number where there is none."""
        return float(self.cells[name] or "nan")

    @property
    def rank(self) -> tuple[float, float]:
        """The greater is the better: the speed-up, which a slow card does not spoil, else the time."""
        speedup = self.number("speedup")
        return (0.0 if math.isnan(speedup) else speedup, -self.number("median_ms"))


@dataclass(frozen=True)
class Champion:
    """A champion and its nearest rival, another candidate; None when it had none.

    `margin` is how many times as fast it is as the rival; `word` whether that is beyond both rows' noise;
    `left_out` counts the rows of other harnesses, which measured otherwise.
    """

    best: Entrant
    rival: Entrant | None = None
    margin: float | None = None
    word: Word | None = None
    left_out: int = 0


def champions(fits: Callable[[Cells], bool] = lambda _: True, across_harness: bool = False) -> list[Champion]:
    """Return the champions over all runs, published ones too, by shape and device.

    Left out are rows that did not pass, are simulated or retracted; a damaged run is passed over. Rivals
    were measured by one harness, the one that measured last, unless it may be `across_harness`.
    """
    rivals: dict[tuple[str, ...], list[Entrant]] = {}
    for entrant in _entrants():
        if fits(entrant.cells):
            rivals.setdefault(entrant.kind, []).append(entrant)
    return [_champion(entrants, across_harness) for _, entrants in sorted(rivals.items())]


def _champion(entrants: Sequence[Entrant], across_harness: bool) -> Champion:
    newest = max(entrants, key=lambda entrant: entrant.cells["started_at"]).cells["harness_sha256"]
    kept = [one for one in entrants if across_harness or one.cells["harness_sha256"] == newest]
    return replace(_leads(kept), left_out=len(entrants) - len(kept))


def _leads(entrants: Iterable[Entrant]) -> Champion:
    ranked = sorted(entrants, key=lambda entrant: entrant.rank, reverse=True)
    best = ranked[0]
    rival = next((entrant for entrant in ranked[1:] if entrant.candidate != best.candidate), None)
    if rival is None:
        return Champion(best)
    found = _against(best, rival)
    ratio = best.number("speedup") / rival.number("speedup")
    by_time = rival.number("median_ms") / best.number("median_ms")
    return Champion(best, rival, by_time if math.isnan(ratio) else ratio, found.word if found else None)


def _against(best: Entrant, rival: Entrant) -> Comparison | None:
    """Compare two speed-ups of different runs; the interval is the widest that both allow."""
    ours = [best.number(name) for name in _NUMBERS[1:]]
    theirs = [rival.number(name) for name in _NUMBERS[1:]]
    if any(map(math.isnan, (*ours[:3], *theirs[:3]))):
        return None
    floor = max((value for value in (ours[3], theirs[3]) if not math.isnan(value)), default=None)
    return Comparison(ours[0] / theirs[0], ours[1] / theirs[2], ours[2] / theirs[1], floor)


def _entrants() -> Iterator[Entrant]:
    root, seen = runs.runs_root(), set[str]()
    for entry in index.entries(root):
        if entry.run_id in seen or not entry.statuses.get("passed") or entry.state == index.DAMAGED:
            continue
        seen.add(entry.run_id)
        yield from _of_run(Run(root / entry.place))


def _of_run(run: Run) -> Iterator[Entrant]:
    taken_back = retractions.read(run.folder)
    try:
        settings = {case.id: " ".join(case.harness_args) for case in run.spec.cases}
        text = (run.folder / "results.csv").read_text(encoding="utf-8")
        rows = [row for row in csv.DictReader(text.splitlines(keepends=True)) if _counts(row)]
    except (FerryError, OSError, ValueError, KeyError, csv.Error):
        return
    for row in rows:
        if not taken_back.why(row["case_id"]):
            yield Entrant(run.folder, row, settings.get(row["case_id"], ""))


def _counts(row: Cells) -> bool:
    """Whether a row passed on a real device and has a time. ValueError for cells that are no numbers."""
    if None in row.values():
        raise ValueError("a line is cut")
    numbers = [float(row[name] or "nan") for name in _NUMBERS]
    return row["status"] == "passed" and not is_simulated(row["device"]) and numbers[0] > 0
