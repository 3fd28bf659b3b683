"""Figures in documents: each carries a marker that says which rows it comes from, and is made anew from it.

`2.25×<!-- = 20261130-143908 geomean(speedup) -->`: the marker stands behind the figure and does not show.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from builder import reading, runs
from builder.errors import FerryError, UsageError
from builder.markdown import Block, blocks
from builder.marks import AGGREGATES, UNITS, Mark, parse, unit_of
from builder.mentions import Miss
from builder.naming import named_otherwise
from builder.reading import Reading
from builder.results import Row, cell

_NUMBER = r"\d[\d,]*(?:\.\d+)?"
# No part of a name (T4 ×2), of a product (64 × 128), of a date or a version.
_FIGURE = re.compile(
    rf"(?<![\w.,–/-])(?:(?P<low>{_NUMBER})\s?(?:×|ms|%)?\s?[–-]\s?)?(?P<high>{_NUMBER})"
    rf"(?P<gap>[ \u00a0\u202f]?)(?P<unit>×(?!\s?\d)|x(?!\w)|ms(?!\w)|%)"
    rf"(?:[*_]{{0,3}}\s?<!--\s*=(?P<mark>.*?)-->)?",
    re.DOTALL,
)
_MARK = re.compile(r"<!--\s*=")
_COMMENT = re.compile(r"<!--(?!\s*=).*?-->", re.DOTALL)
_TOLD = ("speedup", "median_ms", "baseline_median_ms")  # where an unmarked figure is looked for
_MUST_BE_MARKED = ("×", "ms")  # a share may be a setting; it is checked where it is marked


@dataclass(frozen=True)
class Quote:
    """A figure in a document: its numbers as they are written, with the places of these, and its marker."""

    line: int
    numbers: tuple[str, ...]
    places: tuple[tuple[int, int], ...]
    unit: str
    mark: str | None
    sentence: str

    @property
    def text(self) -> str:
        """The figure as people read it."""
        return f"{'–'.join(self.numbers)}{'' if self.unit == '×' else ' '}{self.unit}"


def quotes(text: str) -> Iterator[Quote | Miss]:
    """Yield a document's figures outside code and generated blocks; a marker without one is a miss."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    for block in blocks(text):
        if block.kind == "prose":
            yield from _of_block(block, starts[block.number - 1])


def _of_block(block: Block, start: int) -> Iterator[Quote | Miss]:
    prose = _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), block.without_spans())
    marked = set()
    for found in _FIGURE.finditer(prose):
        names = [name for name in ("low", "high") if found[name]]
        if found["mark"] is not None:
            marked.add(found.start("mark"))
        yield Quote(
            block.line_of(found.start()),
            tuple(found[name] for name in names),
            tuple((start + found.start(name), start + found.end(name)) for name in names),
            "×" if found["unit"] == "x" else found["unit"],
            " ".join(found["mark"].split()) if found["mark"] is not None else None,
            _sentence(block.text, found.start(), found.end()),
        )
    for mark in _MARK.finditer(prose):
        if mark.end() not in marked:
            yield Miss(block.line_of(mark.start()), "there is no figure before this marker")


def _sentence(text: str, start: int, end: int) -> str:
    """Return the sentence, or the table's line, that a figure stands in, without comments."""
    stop = r"\n(?=\|)" if text.lstrip().startswith("|") else r"[.;]\s"
    begin = max((found.end() for found in re.finditer(stop, text[:start])), default=0)
    after = re.search(stop, text[end:])
    sentence = text[begin : end + after.start()] if after else text[begin:]
    return re.sub(r"<!--.*?-->", " ", sentence, flags=re.DOTALL)


# --- what a marker comes to -------------------------------------------------------------------------------


@functools.cache
def _read(word: str, _root: Path) -> Reading:
    return reading.of_run(runs.find(word))


def rows_of(mark: Mark) -> tuple[Row, ...]:
    """Return the rows that a marker stands for, made anew from the raw log.

    UsageError when no run or row is meant, when they were retracted, or a device was simulated.
    """
    found = _read(mark.run, runs.runs_root())
    if why := found.retracted.why(""):
        raise UsageError(f"run {found.name} was retracted: {why}")
    rows = [row for row in found.rows if row.case_id.startswith(mark.case) and mark.fits(row)]
    if not rows:
        raise UsageError(f"run {found.name} has no row for {mark.text}")
    if any(row.is_simulated for row in rows):
        raise UsageError(f"run {found.name} is of a simulated device, which measures nothing")
    retracted = [row for row in rows if found.retracted.why(row.case_id)]
    if retracted and len(retracted) == len(rows):
        why = found.retracted.why(retracted[0].case_id)
        raise UsageError(f"{retracted[0].case_id} of run {found.name} was retracted: {why}")
    return tuple(row for row in rows if row not in retracted)


def values_of(mark: Mark) -> tuple[float, ...]:
    """Return a marker's one or two numbers, from cells as `results.csv` has them. UsageError as `rows_of`."""
    rows, values = rows_of(mark), []
    for term in mark.terms:
        cells = [float(cell(value)) for row in rows if (value := getattr(row, term.column)) is not None]
        if not cells:
            raise UsageError(f"no row of {mark.text} has a {term.column}")
        if not term.aggregate and len(cells) > 1:
            raise UsageError(f"{len(cells)} rows fit {mark.text}: name a case, or what of them, as max(…)")
        values.append(AGGREGATES[term.aggregate](cells) if term.aggregate else cells[0])
    return tuple(values)


def written(quote: Quote, mark: Mark) -> tuple[str, ...]:
    """Return a figure's numbers as the runs have them, with its own digits or the marker's."""
    if len(mark.terms) != len(quote.numbers):
        raise UsageError(f"the marker has {len(mark.terms)} values, the figure {len(quote.numbers)}")
    if wrong := [term.column for term in mark.terms if unit_of(term.column) != quote.unit]:
        raise UsageError(f"{wrong[0]} is told in {unit_of(wrong[0]) or 'no unit'}, not in {quote.unit}")
    return tuple(
        _number(value, quote.unit, number, mark.digits)
        for value, number in zip(values_of(mark), quote.numbers, strict=True)
    )


def _number(value: float, unit: str, like: str, digits: int | None) -> str:
    places = len(like.partition(".")[2]) if digits is None else digits
    comma = "," if "," in like else ""
    return f"{value * UNITS[unit]:{comma}.{places}f}"


# --- a document -------------------------------------------------------------------------------------------


def misses(text: str) -> Iterator[Miss]:
    """Yield what is wrong with a document's figures: stale, unmarked, unmatched, told of something else."""
    for quote in quotes(text):
        if isinstance(quote, Miss):
            yield quote
        elif quote.mark is not None:
            yield from (Miss(quote.line, f"{quote.text}: {said}") for said in _of_quote(quote, quote.mark))
        elif quote.unit in _MUST_BE_MARKED:
            yield Miss(quote.line, f"{quote.text}: {_unmarked(quote)}")


def _of_quote(quote: Quote, text: str) -> Iterator[str]:
    try:
        mark = parse(text)
        if mark is None:
            return
        right = written(quote, mark)
        if right != quote.numbers:
            gives = f"{'–'.join(right)}{'' if quote.unit == '×' else ' '}{quote.unit}"
            yield f"it is stale: {mark.text} gives {gives}; `ferry docs` writes it"
        yield from named_otherwise(quote.sentence, rows_of(mark))
    except FerryError as problem:
        yield problem.message


def _unmarked(quote: Quote) -> str:
    """Say which marker an unmarked figure lacks, or what the runs have that is nearest to it."""
    number = quote.numbers[-1]
    wanted = float(number.replace(",", ""))
    known = list(_known(quote.unit, runs.runs_root()))
    if not known:
        return "no run gives this"
    value, where = min(known, key=lambda item: abs(item[0] - wanted))
    told = _number(value, quote.unit, number, None)
    if told == number:
        return f"it has no marker; this fits: <!-- = {where} -->"
    return f"no run gives this; nearest {told}{'' if quote.unit == '×' else ' '}{quote.unit} in {where}"


@functools.cache
def _known(unit: str, _root: Path) -> tuple[tuple[float, str], ...]:
    """Return what the published runs have in a unit, each value with its marker's text."""
    found = []
    for run in runs.published_runs():
        columns = [name for name in _TOLD if unit_of(name) == unit]
        texts = [f"{run.id}/{case.id} {column}" for case in run.spec.cases for column in columns]
        for text in [*texts, *(f"{run.id} geomean({column})" for column in columns)]:
            try:
                mark = parse(text)
                found += [(value, text) for value in (values_of(mark) if mark else ())]
            except FerryError:
                continue
    return tuple(found)


def regenerated(text: str) -> tuple[str, list[Miss]]:
    """Return a document with each marked figure as the runs have it, and the markers that lead nowhere."""
    made, problems = text, []
    for quote in reversed(list(quotes(text))):
        if isinstance(quote, Miss):
            problems.append(quote)
        elif quote.mark is not None:
            try:
                mark = parse(quote.mark)
                right = written(quote, mark) if mark else quote.numbers
            except FerryError as problem:
                problems.append(Miss(quote.line, f"{quote.text}: {problem.message}"))
                continue
            for (start, end), number in reversed(list(zip(quote.places, right, strict=True))):
                made = made[:start] + number + made[end:]
    return made, problems[::-1]


def on_line(path: Path, line: int) -> list[Quote]:
    """Return the marked figures on a line of a document. UsageError when there is none."""
    found = [
        quote
        for quote in quotes(path.read_text(encoding="utf-8"))
        if isinstance(quote, Quote) and quote.line == line and quote.mark
    ]
    if not found:
        raise UsageError(f"no figure on line {line} of {path} has a marker", f"ferry audit {path}")
    return found
