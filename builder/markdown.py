"""A Markdown document as far as an audit reads it: prose, code, and blocks that a program has written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_BEGIN, _END = "<!-- begin: ", "<!-- end -->"
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """Lines of one kind, `prose`, `code` or `generated`, from line `number` on; a paragraph is one block."""

    number: int
    text: str
    kind: str

    def line_of(self, offset: int) -> int:
        """Return the line in the document of a place in the text."""
        return self.number + self.text.count("\n", 0, offset)

    def spans(self) -> Iterator[tuple[int, str]]:
        """Yield the code spans of prose, each with its line; one may go on over a line's end."""
        for found in _SPAN.finditer(self.text):
            yield self.line_of(found.start()), " ".join(found[2].split())

    def without_spans(self) -> str:
        """Return prose with its code spans blanked out, everything else in its place."""
        return _SPAN.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), self.text)


def blocks(text: str) -> Iterator[Block]:
    """Yield a document's blocks in order; a fence or a generated block that has no end goes to the end."""
    held: list[str] = []
    first, kind, end = 1, "prose", ""
    for number, line in enumerate(text.split("\n"), 1):
        if end:
            held.append(line)
            if line.strip() == end or (end != _END and re.fullmatch(rf"\s*{end}+\s*", line)):
                yield Block(first, "\n".join(held), kind)
                held, kind, end = [], "prose", ""
            continue
        fence = _FENCE.match(line)
        begins = fence or line.startswith(_BEGIN)
        if held and (begins or not line.strip()):
            yield Block(first, "\n".join(held), kind)
            held = []
        if begins:
            kind, end = ("code", fence[1]) if fence else ("generated", _END)
        if begins or line.strip():
            first = number if not held else first
            held.append(line)
    if held:
        yield Block(first, "\n".join(held), kind)
