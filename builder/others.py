"""What others have published of a card, kept as data with source and date, beside rows of such a card.

Nothing of it was measured by us, and no two sessions have the same card: something to look at, no verdict.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass

from builder import accelerators
from builder.results import Row
from builder.templating import TEMPLATES

_FILE = "report/published.json"


@dataclass(frozen=True)
class Figures:
    """Somebody's published times: `ms` by shape, before and after, in milliseconds.

    `accelerator` is the card's name at its service, `where` the file that says so, `date` its day.
    """

    accelerator: str
    name: str
    what: str
    dtype: str
    source: str
    where: str
    date: str
    protocol: str
    ms: dict[str, tuple[float, float]]

    def is_of(self, row: Row) -> bool:
        """Whether a row was measured on such a card, of a shape that is here."""
        device = accelerators.KNOWN[self.accelerator].device
        same = row.dtype == self.dtype and row.shape in self.ms and not row.is_simulated
        return same and row.status == "passed" and device in row.device and bool(row.median_ms)


@dataclass(frozen=True)
class Beside:
    """A row beside somebody's figures for its shape. `share` is its time over theirs: below 1, faster."""

    figures: Figures
    row: Row

    @property
    def theirs(self) -> tuple[float, float]:
        """Their times before and after."""
        return self.figures.ms[self.row.shape]

    @property
    def share(self) -> float:
        """This row's time over theirs."""
        assert self.row.median_ms
        return self.row.median_ms / self.theirs[1]

    @property
    def cells(self) -> list[str]:
        """Times and speed-ups, theirs and this row's, and the time's share."""
        before, after = self.theirs
        row = self.row
        own = f"{row.speedup:.2f}×" if row.speedup else ""
        times = [before, after, row.baseline_median_ms, row.median_ms]
        shown = ["" if ms is None else f"{ms:.4g}" for ms in times]
        return [*shown[:2], f"{before / after:.2f}×", *shown[2:], own, f"{self.share:.2f}"]


HEAD = (
    "theirs before, ms",
    "after, ms",
    "speed-up",
    "baseline, ms",
    "this run, ms",
    "speed-up",
    "time ÷ theirs",
)


@functools.cache
def published() -> tuple[Figures, ...]:
    """Return all figures that are kept."""
    data = json.loads((TEMPLATES / _FILE).read_text(encoding="utf-8"))
    return tuple(
        Figures(**{**entry, "ms": {shape: (before, after) for shape, (before, after) in entry["ms"].items()}})
        for entry in data["figures"]
    )


def beside(rows: Sequence[Row]) -> list[tuple[Figures, list[Beside]]]:
    """Return each of the figures that some row can be set beside, with those rows."""
    found = [
        (figures, [Beside(figures, row) for row in rows if figures.is_of(row)]) for figures in published()
    ]
    return [(figures, pairs) for figures, pairs in found if pairs]
