"""Figures in documents: each carries a marker that says which rows it comes from, and is made anew from it.

`2.25×<!-- = 20261130-143908 geomean(speedup) -->`: the marker stands behind the figure and does not show.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from builder import runs
from builder.errors import FerryError, UsageError
from builder.figures import counted_rows, known, values_of
from builder.markdown import Block, blocks
from builder.marks import UNITS, Mark, parse, refuse_other_unit
from builder.mentions import Miss
from builder.naming import named_otherwise
from builder.prose import Surroundings

_NUMBER = r"\d[\d,]*(?:\.\d+)?"
# No part of a name (T4 ×2), of a product (64 × 128), of a date or a version.
_FIGURE = re.compile(
    rf"(?<![\w.,–/-])(?:(?P<low>{_NUMBER})\s?(?:×|ms|%)?\s?[–-]\s?)?(?P<high>{_NUMBER})"
    r"(?:[\s\u00a0\u202f]?(?P<unit>×(?!\s?\d)|x(?!\w)|(?<=\.\d\s)times\b|(?<=\.\d\d\s)times\b"
    r"|ms(?!\w)|%|percent\b|s(?!\w)|MiB\b|tokens/s\b)|(?=[*_]{0,3}\s?<!--\s*=))"
    r"(?:[*_]{0,3}\s?<!--\s*=(?P<mark>.*?)-->)?",
    re.DOTALL,
)
_MARK = re.compile(r"<!--\s*=")
_COMMENT = re.compile(r"<!--(?!\s*=).*?-->", re.DOTALL)
_SETTINGS = re.compile(r"<!--\s*settings:(.*?)-->", re.DOTALL)
_MUST_BE_MARKED = ("×", "ms", "%", "tokens/s")  # seconds and MiB are mostly settings: checked where marked
_WRITTEN = {"x": "×", "times": "×", "percent": "%", None: ""}


@dataclass(frozen=True)
class Quote:
    """A figure in a document: its numbers as they are written, with the places of these, and its marker."""

    line: int
    numbers: tuple[str, ...]
    places: tuple[tuple[int, int], ...]
    unit: str
    mark: str | None
    scopes: tuple[str, ...]

    @property
    def text(self) -> str:
        """The figure as people read it."""
        return told(self.numbers, self.unit)


def told(numbers: Sequence[str], unit: str) -> str:
    """Return numbers with their unit, as people read them."""
    return f"{'–'.join(numbers)}{'' if unit in ('×', '') else ' '}{unit}"


def quotes(text: str) -> Iterator[Quote | Miss]:
    """Yield a document's figures outside code and generated blocks; a marker without one is a miss."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    around = Surroundings()
    for block in blocks(text):
        if block.kind == "prose":
            yield from _of_block(block, starts[block.number - 1], around)
            around.pass_by(block.text)


def _of_block(block: Block, start: int, around: Surroundings) -> Iterator[Quote | Miss]:
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
            _WRITTEN.get(found["unit"], found["unit"]),
            " ".join(found["mark"].split()) if found["mark"] is not None else None,
            around.scopes(block.text, found.start(), found.end()),
        )
    for mark in _MARK.finditer(prose):
        if mark.end() not in marked:
            yield Miss(block.line_of(mark.start()), "there is no figure before this marker")


# --- what a figure must be ---------------------------------------------------------------------------------


def written(quote: Quote, mark: Mark) -> tuple[str, ...]:
    """Return a figure's numbers as the runs have them, with its own digits or the marker's."""
    if len(mark.ends) != len(quote.numbers):
        raise UsageError(f"the marker has {len(mark.ends)} values, the figure {len(quote.numbers)}")
    for end in mark.ends:
        refuse_other_unit(end, quote.unit)
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
    settings = _settings(text)
    for quote in quotes(text):
        if isinstance(quote, Miss):
            yield quote
        elif quote.mark is not None:
            yield from (Miss(quote.line, f"{quote.text}: {said}") for said in _of_quote(quote, quote.mark))
        elif quote.unit in _MUST_BE_MARKED and quote.text not in settings:
            yield Miss(quote.line, f"{quote.text}: {_unmarked(quote)}")


def _settings(text: str) -> set[str]:
    """Return the figures that a document declares as settings, nobody's measurements, as they are told."""
    prose = "\n".join(block.without_spans() for block in blocks(text) if block.kind == "prose")
    words = [word for found in _SETTINGS.finditer(prose) for word in found[1].split(",")]
    return {" ".join(word.split()) for word in words}


def _of_quote(quote: Quote, text: str) -> Iterator[str]:
    try:
        mark = parse(text)
        if mark is None:
            return
        right = written(quote, mark)
        if right != quote.numbers:
            yield f"it is stale: {mark.text} gives {told(right, quote.unit)}; `ferry docs` writes it"
        yield from named_otherwise(quote.scopes, counted_rows(mark))
    except FerryError as problem:
        yield problem.message


def _unmarked(quote: Quote) -> str:
    """Say which marker an unmarked figure lacks, or what the runs have that is nearest to it."""
    number = quote.numbers[-1]
    wanted = float(number.replace(",", ""))
    there_are = known(quote.unit, runs.runs_root())
    if not there_are:
        return f"it has no marker; where nobody measured it: <!-- settings: {quote.text} -->"
    value, where = min(there_are, key=lambda item: abs(item[0] - wanted))
    nearest = _number(value, quote.unit, number, None)
    if nearest == number and len(quote.numbers) == 1:
        return f"it has no marker; this fits: <!-- = {where} -->"
    return f"no run gives this; nearest {told((nearest,), quote.unit)} in {where}"


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
