"""What a marker comes to: its rows, made anew from raw logs, and its numbers."""

from __future__ import annotations

import csv
import functools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from builder import reading, retractions, runs
from builder.disk import PUBLISHED
from builder.errors import FerryError, UsageError
from builder.marks import AGGREGATES, Mark, Operand, Source, Sum, Term, unit_of
from builder.reading import Reading
from builder.results import Row, cell
from builder.stats import geomean
from harness.events import is_simulated

_TOLD = ("speedup", "median_ms", "baseline_median_ms")  # where a figure without a marker is looked for


class NoValueError(UsageError):
    """The rows that are meant have no such figure."""


def read(word: str) -> Reading:
    """Return a run as its raw log tells it, read once. UsageError when there is none."""
    return _read(word, runs.runs_root())


@functools.cache
def _read(word: str, _root: Path) -> Reading:
    return reading.of_run(runs.find(word))


def rows_of(source: Source) -> tuple[Row, ...]:
    """Return the rows that a source stands for, made anew from the raw log; a file has none.

    UsageError when no run or row is meant, when they were retracted, or a device was simulated.
    """
    if source.is_file:
        return ()
    found = read(source.run)
    if why := found.retracted.why(""):
        raise UsageError(f"run {found.name} was retracted: {why}")
    rows = [row for row in found.rows if row.case_id.startswith(source.case) and source.fits(row)]
    if not rows:
        raise UsageError(f"run {found.name} has no row for {_told(source)}")
    if any(row.is_simulated for row in rows):
        raise UsageError(f"run {found.name} is of a simulated device, which measures nothing")
    retracted = [row for row in rows if found.retracted.why(row.case_id)]
    if retracted and len(retracted) == len(rows):
        why = found.retracted.why(retracted[0].case_id)
        raise UsageError(f"{retracted[0].case_id} of run {found.name} was retracted: {why}")
    return tuple(row for row in rows if row not in retracted)


def _told(source: Source) -> str:
    return " ".join(filter(None, [source.case, *map("=".join, source.filters.items())])) or "it"


def all_rows(mark: Mark) -> tuple[Row, ...]:
    """Return the rows of all of a marker's sources. UsageError as `rows_of`."""
    return tuple(row for source in mark.sources for row in rows_of(source))


def counted_rows(mark: Mark) -> tuple[Row, ...]:
    """Return the rows that have a part in a marker's numbers: those whose cell is not empty."""
    return tuple(
        row
        for operand in mark.operands
        if operand.source
        for row in rows_of(operand.source)
        if cell(getattr(row, operand.term.column))
    )


def values_of(mark: Mark) -> tuple[float, ...]:
    """Return a marker's one or two numbers, from cells as `results.csv` has them. UsageError as `rows_of`."""
    return tuple(map(_sum, mark.ends))


def _sum(end: Sum) -> float:
    first, *others = (_ratio([_value(operand) for operand in product]) for product in end)
    return first - sum(others)


def _ratio(values: Sequence[float]) -> float:
    first, *others = values
    for value in others:
        if not value:
            raise UsageError("it is divided by nothing")
        first /= value
    return first


def _value(operand: Operand) -> float:
    if operand.source is None:
        return operand.number
    term, told = operand.term, operand.text
    cells = _of_file(operand.source, term) if operand.source.is_file else _of_rows(operand.source, term)
    if not cells:
        raise NoValueError(f"no row of {told} has a {term.column}")
    if term.aggregate == "count":
        return len(cells)
    try:
        numbers = [float(one) for one in cells]
    except (TypeError, ValueError):
        raise UsageError(f"{term.column} of {told} is no number") from None
    if not term.aggregate and len(numbers) > 1:
        raise UsageError(f"{len(numbers)} rows fit {told}: name a case, or what of them, as max(…)")
    return AGGREGATES[term.aggregate](numbers) if term.aggregate else numbers[0]


def _of_rows(source: Source, term: Term) -> list[Any]:
    return [text for row in rows_of(source) if (text := cell(getattr(row, term.column)))]


def _of_file(source: Source, term: Term) -> list[Any]:
    """Return the values at a place in a JSON file beside the published runs; `2:4` are several of a list."""
    path = runs.runs_root() / PUBLISHED / source.run
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        for name in term.column.split("."):
            if ":" in name:
                begin, end = map(int, name.split(":"))
                return list(found[begin:end])
            found = found[int(name)] if isinstance(found, list) else found[name]
    except (OSError, ValueError, LookupError, TypeError) as problem:
        raise UsageError(f"{source.run} has no {term.column}: {problem}") from None
    return found if isinstance(found, list) else [found]


# --- what there is for a figure that has no marker --------------------------------------------------------


@functools.cache
def known(unit: str, _root: Path) -> tuple[tuple[float, str], ...]:
    """Return what the runs have in a unit, each value with its marker's text, published ones first.

    It is read from `results.csv`, since it is a suggestion: a marker is checked with the raw log.
    """
    listed = {run.id: run.folder for run in (*runs.published_runs(), *runs.all_runs())}
    names = [name for name in _TOLD if unit_of(name) == unit]
    return tuple(found for run_id, folder in listed.items() for found in _known(run_id, folder, names))


def _known(run_id: str, folder: Path, names: Sequence[str]) -> Iterator[tuple[float, str]]:
    try:
        taken_back = retractions.read(folder)
        with (folder / "results.csv").open(encoding="utf-8", newline="") as stream:
            rows = [row for row in csv.DictReader(stream) if not is_simulated(row["device"])]
        kept = [row for row in rows if not taken_back.why(row["case_id"])]
        for name in names:
            found = {row["case_id"]: float(row[name]) for row in kept if row[name]}
            yield from ((value, f"{run_id}/{case} {name}") for case, value in found.items())
            if positive := [value for value in found.values() if value > 0]:
                yield geomean(positive), f"{run_id} geomean({name})"
    except (FerryError, OSError, ValueError, KeyError, TypeError, csv.Error):
        return
