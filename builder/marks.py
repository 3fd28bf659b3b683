"""A figure's marker: what it comes from, as a formula over columns of runs' rows.

`RUN[/CASE] FORMULA [COLUMN=VALUE…] [.2f]`, or `not measured: WHY`. FORMULA is a column or an aggregate of
one, `geomean(speedup)`; two joined by a dash make a range. Figures of several runs are joined by ` ÷ ` and
` - `, also with plain numbers, and by ` to ` for a range: `A/s13 median_ms ÷ B/s13 median_ms - 1`. What was
measured without a run is named by its file beside the published runs: `bench/x.json figures.0.value`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
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
    "count": len,
}
# What a cell is multiplied by; a share is told in %, what has no unit in none.
UNITS = {"×": 1.0, "ms": 1.0, "%": 100.0, "s": 1.0, "MiB": 1.0, "tokens/s": 1.0, "": 1.0}
_RATIO = "a ratio"  # of one unit to the same: told in × or %
_ANY = "any unit"  # what stands in a file of figures
_TOLD_IN = {"tokens_per_s": "tokens/s", "peak_mem_mib": "MiB", "first_call_s": "s", "compile_s": "s"}
_SHARES = ("noise_floor", "gate_share", "coverage")
_TERM = re.compile(r"(?:([a-z]+)\()?([a-z0-9_]+)\)?")
_PATH = re.compile(r"(?:([a-z]+)\()?(\w+(?:\.\w+)*(?::\d+)?)\)?")
_NUMBER = re.compile(r"\d{1,7}(?:\.\d+)?")
_FORMAT = re.compile(r"\.(\d)f")
_OPERATORS = re.compile(r" [÷/\u2212-] ")
_HINT = "a marker is RUN[/CASE] FORMULA [COLUMN=VALUE]… [.2f], as: 20261130-143908/s13 speedup"


@dataclass(frozen=True)
class Term:
    """A column of `results.csv`, and what is made of its rows; without an aggregate there is one row.

    Of a JSON file it is the way to a value, `figures.0.value`, or to several, `figures.0.samples.a.2:4`.
    """

    column: str
    aggregate: str = ""


@dataclass(frozen=True)
class Source:
    """The rows of a run, of a case of it, with such values in other columns; or a file of figures."""

    run: str
    case: str = ""
    filters: dict[str, str] = field(default_factory=dict)

    @property
    def is_file(self) -> bool:
        """Whether it is a JSON file and no run."""
        return self.run.endswith(".json")

    def fits(self, row: Row) -> bool:
        """Whether a row has the values that are named; a part of a device's name will do."""
        return all(
            value in cell(getattr(row, name)) if name == "device" else value == cell(getattr(row, name))
            for name, value in self.filters.items()
        )


@dataclass(frozen=True)
class Operand:
    """A term of a source, or a plain number."""

    text: str
    source: Source | None = None
    term: Term = field(default_factory=lambda: Term(""))
    number: float = 0.0

    @property
    def unit(self) -> str:
        """The unit that it is told in; empty where it has none."""
        if self.source is None:
            return _RATIO
        if self.source.is_file:
            return _ANY
        return "" if self.term.aggregate == "count" else unit_of(self.term.column)


Product = tuple[Operand, ...]  # the first over all the others
Sum = tuple[Product, ...]  # the first without all the others


@dataclass(frozen=True)
class Mark:
    """A marker: one end, or the two of a range."""

    text: str
    ends: tuple[Sum, ...]
    digits: int | None = None

    @property
    def operands(self) -> Iterator[Operand]:
        """All that it is made of."""
        return (operand for end in self.ends for product in end for operand in product)

    @property
    def sources(self) -> list[Source]:
        """Where its figures come from, each source once."""
        found: list[Source] = []
        for operand in self.operands:
            if operand.source and operand.source not in found:
                found.append(operand.source)
        return found


def unit_of(column: str) -> str:
    """Return the unit that a column is told in; empty where it has none."""
    if column.startswith("speedup"):
        return "×"
    return "ms" if column.endswith("_ms") else "%" if column in _SHARES else _TOLD_IN.get(column, "")


def refuse_other_unit(end: Sum, unit: str) -> None:
    """UsageError for a figure in another unit than its marker gives, and for ms ÷ × and the like."""
    units = {_unit_of_product(product) for product in end}
    if len(end) > 1:  # a ratio without 1 is a ratio
        units = {_RATIO if one in ("×", "%", _ANY) else one for one in units}
    if len(units) > 1:
        raise UsageError(f"{' and '.join(sorted(units))} do not make one figure")
    (own,) = units
    if unit not in (("×", "%", "") if own in (_RATIO, _ANY) else (own,)):
        name = " ".join(operand.term.column or operand.text for operand in end[0])
        raise UsageError(f"{name} is told in {own or 'no unit'}, not in {unit or 'none'}")


def _unit_of_product(product: Product) -> str:
    units = {operand.unit for operand in product}
    if len(product) == 1 or units == {_RATIO}:
        return units.pop()
    if len(units - {_RATIO, _ANY}) > 1:
        raise UsageError(f"{' ÷ '.join(sorted(units))} is no ratio")
    return _RATIO


def parse(text: str) -> Mark | None:
    """Return what a marker says; None for a figure that was not measured, with the reason. UsageError."""
    if re.match(r"not measured: \S", text):
        return None
    words = text.split()
    digits = int(found[1]) if words and (found := _FORMAT.fullmatch(words[-1])) else None
    ends = _spread(" ".join(words if digits is None else words[:-1]))
    if len(ends) > 2:
        raise UsageError(f"{text!r} has more than two ends", _HINT)
    named = next((word for word in _OPERATORS.split(" - ".join(ends)) if not _NUMBER.fullmatch(word)), "")
    first = _operand(named, None).source
    return Mark(text, tuple(_sum(end, first) for end in ends), digits)


def _spread(text: str) -> list[str]:
    """Return the ends of a range: of `A … to B …`, or of one source, `RUN min(x)–max(x)`."""
    words = text.split(" ")
    if _OPERATORS.search(text) or len(words) < 2 or " to " in text:
        return text.split(" to ")
    return [" ".join([words[0], term, *words[2:]]) for term in re.split("[–-]", words[1])]


def _sum(text: str, first: Source | None) -> Sum:
    return tuple(
        tuple(_operand(word, first) for word in re.split(r" [÷/] ", product))
        for product in re.split(r" [\u2212-] ", text)
    )


def _operand(text: str, first: Source | None) -> Operand:
    """Return an operand; one without a source of its own is of the marker's first."""
    words = text.split()
    if _NUMBER.fullmatch(text):
        return Operand(text, number=float(text))
    if first and words and (found := _TERM.fullmatch(words[0])) and found[2] in COLUMNS:
        words = ["", *words]
    elif len(words) < 2:
        raise UsageError(f"the marker {text!r} does not say what it is", _HINT)
    source = replace(first) if first and not words[0] else _source(words[0])
    source = replace(source, filters=dict(map(_filter, words[2:]))) if words[2:] else source
    return Operand(text, source, _term(words[1], source))


def _source(word: str) -> Source:
    run, _, case = word.partition("/")
    return Source(word) if word.endswith(".json") else Source(run, case)


def _term(word: str, source: Source) -> Term:
    found = (_PATH if source.is_file else _TERM).fullmatch(word)
    is_known = found is not None and (source.is_file or found[2] in COLUMNS)
    if found is None or bool(found[1]) != word.endswith(")") or not is_known:
        raise UsageError(f"{word!r} is no column of results.csv, nor made of one", _HINT)
    if found[1] and found[1] not in AGGREGATES:
        raise UsageError(f"{found[1]} is none of {', '.join(AGGREGATES)}", _HINT)
    return Term(found[2], found[1] or "")


def _filter(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or name not in COLUMNS:
        raise UsageError(f"{word!r} does not name a column's value", _HINT)
    return name, value
