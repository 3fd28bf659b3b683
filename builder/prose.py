"""What is said around a figure: its sentence, the ones before it, a table's head, the headings above."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_HEADING = re.compile(r"^(#{1,6})\s+(.*)$", re.MULTILINE)
_ENDS = re.compile(r"[.;:!?][*_)]*\s+|\n(?=\s*[-*+]\s|\s*\d+\.\s)")  # of a sentence, or of a list's item
_OPEN = re.compile(r"\s*(?:\||[-*+]\s|\d+\.\s)")  # a table or a list, which the paragraph before it is about


@dataclass
class Surroundings:
    """What stands above the block that is read: the headings that are open, and the block before it."""

    headings: list[tuple[int, str]] = field(default_factory=list)
    before: str = ""

    def scopes(self, text: str, start: int, end: int) -> tuple[str, ...]:
        """Return what is said around a place in a block, the nearest first, without comments."""
        near = _of_row(text, start) if _is_table(text) else _of_sentences(text, start, end)
        before = (self.before,) if _OPEN.match(text) else ()
        inside = [(len(found[1]), found[2]) for found in _HEADING.finditer(text, 0, start)]
        headings = [words for _, words in reversed(_opened(self.headings, inside))]
        return tuple(_COMMENT.sub(" ", said) for said in (*near, *before, *headings))

    def pass_by(self, text: str) -> None:
        """Go on behind a block of prose."""
        inside = [(len(found[1]), found[2]) for found in _HEADING.finditer(text)]
        self.headings = _opened(self.headings, inside)
        self.before = "" if inside else text


def _opened(headings: list[tuple[int, str]], more: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the headings that are open behind some more: one closes those of its level and below."""
    for level, words in more:
        headings = [*(one for one in headings if one[0] < level), (level, words)]
    return headings


def _is_table(text: str) -> bool:
    return text.lstrip().startswith("|")


def _of_row(text: str, start: int) -> Iterator[str]:
    """Yield a table's row, and the head of the column."""
    begin = text.rfind("\n", 0, start) + 1
    row = text[begin : (text + "\n").index("\n", start)]
    yield row
    lines = text.strip().split("\n")
    cells = lines[0].split("|")
    column = len(re.findall(r"(?<!\\)\|", text[begin:start]))
    if len(lines) > 1 and re.fullmatch(r"[\s|:-]+", lines[1]) and column < len(cells):
        yield cells[column]


def sentence_at(text: str, start: int, end: int) -> str:
    """Return the sentence, or the table's row, that a place stands in, with its comments."""
    return next(_of_row(text, start) if _is_table(text) else _of_sentences(text, start, end))


def _of_sentences(text: str, start: int, end: int) -> Iterator[str]:
    """Yield the sentence of a place, then those before it, the nearest first."""
    plain = _COMMENT.sub(lambda found: "x" * len(found[0]), text)  # what ends a sentence is no comment's
    ends = [0, *(found.end() for found in _ENDS.finditer(plain)), len(text)]
    own = max(place for place in ends if place <= start)
    after = min(place for place in ends if place >= end)
    yield text[own:after]
    places = [place for place in ends if place <= own]
    for first, last in zip(places[-2::-1], places[:0:-1], strict=True):
        yield text[first:last]
