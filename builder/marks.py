"""A figure's marker: `RUN[/CASE] FORMULA [COLUMN=VALUE…] [.2f]`, or `not measured: WHY`.

FORMULA is a column or an aggregate of one, `geomean(speedup)`; two joined by a dash make a range.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from builder.errors import UsageError
from builder.results import COLUMNS, Row, cell
from builder.stats import geomean

AGGREGATES: dict[str, Callable[[Sequence[float]], float]] = {
    "geomean": geomean,
    "median": median,
    "mean": fmean,
    "min": min,
    "max": max,
}
UNITS = {"×": 1.0, "ms": 1.0, "%": 100.0}  # what a cell is multiplied by
_SHARES = ("noise_floor", "gate_share", "coverage")
_TERM = re.compile(r"(?:([a-z]+)\()?([a-z0-9_]+)\)?")
_FORMAT = re.compile(r"\.(\d)f")
_HINT = "a marker is RUN[/CASE] FORMULA [COLUMN=VALUE]… [.2f], as: 20261130-143908/s13 speedup"


@dataclass(frozen=True)
class Term:
    """A column of `results.csv`, and what is made of its rows; without an aggregate there is one row."""

    column: str
    aggregate: str = ""


@dataclass(frozen=True)
class Mark:
    """What a figure comes from: the rows of a run, of a case, with such values in other columns."""

    text: str
    run: str
    case: str
    terms: tuple[Term, ...]
    filters: dict[str, str] = field(default_factory=dict)
    digits: int | None = None

    def fits(self, row: Row) -> bool:
        """Whether a row has the values that the marker names; a part of a device's name will do."""
        return all(
            value in cell(getattr(row, name)) if name == "device" else value == cell(getattr(row, name))
            for name, value in self.filters.items()
        )


def unit_of(column: str) -> str:
    """Return the unit that a column is told in; empty where it has none."""
    if column.startswith("speedup"):
        return "×"
    return "ms" if column.endswith("_ms") else "%" if column in _SHARES else ""


def parse(text: str) -> Mark | None:
    """Return what a marker says; None for a figure that was not measured, with the reason. UsageError."""
    if re.match(r"not measured: \S", text):
        return None
    words = text.split()
    if len(words) < 2:
        raise UsageError(f"the marker {text!r} does not say what it is", _HINT)
    run, _, case = words[0].partition("/")
    digits = int(found[1]) if (found := _FORMAT.fullmatch(words[-1])) else None
    filters = dict(_filter(word) for word in words[2 : -1 if found else None])
    terms = tuple(map(_term, re.split("[–-]", words[1])))
    if len(terms) > 2:
        raise UsageError(f"{words[1]} has more than two ends", _HINT)
    return Mark(text, run, case, terms, filters, digits)


def _term(word: str) -> Term:
    found = _TERM.fullmatch(word)
    if found is None or bool(found[1]) != word.endswith(")") or found[2] not in COLUMNS:
        raise UsageError(f"{word!r} is no column of results.csv, nor made of one", _HINT)
    if found[1] and found[1] not in AGGREGATES:
        raise UsageError(f"{found[1]} is none of {', '.join(AGGREGATES)}", _HINT)
    return Term(found[2], found[1] or "")


def _filter(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or name not in COLUMNS:
        raise UsageError(f"{word!r} does not name a column's value", _HINT)
    return name, value
