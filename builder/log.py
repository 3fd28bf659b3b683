"""A raw log, in any form it is met in, to whole lines in order. Memory is bounded whatever the size.

    reader = LogReader(path)
    for line in reader.lines():
        print(line.stream, printable(line.text))
    print(reader.form, reader.problems, reader.tail(5))

Order is the file's: a log's times belong to a stream each and go backwards. Whoever must be fast takes
`blocks()`, which hands over many lines at a time.
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from builder import logjson
from builder.errors import UsageError
from builder.logforms import (
    HEAD_BYTES,
    LIVE_HEAD_BYTES,
    Findings,
    Form,
    encoding_of,
    foreign_words,
    form_of,
    to_utf8,
    whole_chars,
)
from builder.terminal import printable
from harness.events import MARKER

BLOCK_BYTES = 262_144
LINE_CHARS = 65_536  # a longer line is cut into pieces
TAIL_CHARS = 65_536  # how much of its end a reader remembers

_STREAMS = ("stdout", "stderr")

Source = Path | Iterable[bytes]


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of one stream, each with its `\\n`; `first_line` is the number of the first, from 1.

    Lines are numbered as they become whole, over all streams. `\\r` stays where it was.
    """

    stream: str
    first_line: int
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end. `stream` is `stdout`, `stderr`, or empty where the log does not say."""

    number: int
    stream: str
    text: str


class LogReader:
    """Reads one log once. `form`, `problems`, `line_count` and `tail` are final when the reading has ended.

    The source is a file's path, an open file, or blocks of bytes as they arrive (an empty block: nothing is
    new for now). UsageError when a path cannot be read.
    """

    def __init__(self, source: Source) -> None:
        self.form = Form.EMPTY
        self.line_count = 0
        self._source = source
        self._findings = Findings()
        self._lines = _LineJoiner(self._findings)
        self._tail: deque[str] = deque()
        self._tail_chars = 0

    @property
    def problems(self) -> list[str]:
        """What was missing or damaged, a sentence each."""
        return self._findings.sentences()

    def blocks(self) -> Iterator[Block]:
        """Yield the log's lines, many at a time."""
        for name, text in self._pieces():
            stream = name if name in _STREAMS else ""
            yield from self._block(stream, self._lines.add(stream, text))
        for stream, text in self._lines.rest():
            yield from self._block(stream, text)

    def lines(self) -> Iterator[Line]:
        """Yield the log's lines."""
        for block in self.blocks():
            for number, text in enumerate(block.text.split("\n")[:-1], block.first_line):
                yield Line(number, block.stream, text.removesuffix("\r"))

    def tail(self, count: int) -> list[str]:
        """Return the last lines that the program wrote, at most `count`, ready to show.

        Events are left out, and what the notebook's converter writes after the program has ended.
        """
        lines = "".join(self._tail).split("\n")
        shown = [printable(line) for line in lines if MARKER not in line]
        return without_trailer(shown)[-count:]

    def _pieces(self) -> Iterator[tuple[str, str]]:
        blocks = _opened(self._source)
        head = _head(blocks)
        encoding = encoding_of(head)
        if encoding != "utf-8":
            blocks = to_utf8(chain([head], blocks), encoding)
            head = _head(blocks)
        head = head.removeprefix(codecs.BOM_UTF8)
        self.form = form_of(head)
        self._findings.empty = self.form is Form.EMPTY
        self._findings.foreign = foreign_words(head) if self.form is Form.FOREIGN else ""
        blocks = chain([head, b""], blocks)
        if self.form.has_records:
            yield from logjson.pieces(blocks, self._findings)
            self._findings.unclosed &= self.form is Form.ARRAY
        else:
            yield from _text_pieces(blocks, self._findings)

    def _block(self, stream: str, text: str) -> Iterator[Block]:
        if text:
            yield Block(stream, self.line_count + 1, text)
            self.line_count += text.count("\n")
            self._remember(text)

    def _remember(self, text: str) -> None:
        self._tail.append(text[-TAIL_CHARS:])
        self._tail_chars += len(self._tail[-1])
        while self._tail_chars - len(self._tail[0]) >= TAIL_CHARS:
            self._tail_chars -= len(self._tail.popleft())


class _LineJoiner:
    """Joins pieces of text to whole lines, each stream for itself."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._begun: dict[str, str] = {}

    def add(self, stream: str, text: str) -> str:
        """Return the lines of `stream` that are whole now."""
        text = self._begun.pop(stream, "") + text
        end = text.rfind("\n") + 1
        if len(text) - end > LINE_CHARS:
            return self._cut(stream, text, end)
        if end < len(text):
            self._begun[stream] = text[end:]
        return text[:end]

    def rest(self) -> Iterator[tuple[str, str]]:
        """Yield the last line of each stream that ended without a line end."""
        for stream, text in self._begun.items():
            yield stream, text + "\n"

    def _cut(self, stream: str, text: str, end: int) -> str:
        cut = text.rfind("\r", end) + 1  # between two states of a progress bar, if it is one
        if not cut:
            self._findings.long_lines += 1
            cut = len(text)
        self._begun[stream] = text[cut:]
        return text[:cut] + "\n"


def refuse_no_log(path: Path) -> None:
    """Raise UsageError for an empty file and for one that is something else than a log."""
    reader = LogReader(path)
    next(reader.blocks(), None)
    if reader.form in (Form.EMPTY, Form.FOREIGN):
        raise UsageError(
            f"{path}: {reader.problems[0]}", "if the log is lost, give ferry-events.jsonl instead"
        )


def _opened(source: Source) -> Iterator[bytes]:
    if isinstance(source, Path):
        try:
            with source.open("rb") as file:
                yield from _opened(file)
        except OSError as problem:
            raise UsageError(f"cannot read the log {source}: {problem.strerror}") from problem
    else:
        read = getattr(source, "read", None)
        yield from iter(partial(read, BLOCK_BYTES), b"") if read else source


def _head(blocks: Iterator[bytes]) -> bytes:
    """Take blocks until they tell the form: enough of them, or some and nothing more for now."""
    head = b""
    for block in blocks:
        head += block
        if len(head) >= HEAD_BYTES or (not block and _is_telling(head)):
            break
    return head


def _is_telling(head: bytes) -> bool:
    return len(head) >= LIVE_HEAD_BYTES or form_of(head).has_records


def _text_pieces(blocks: Iterable[bytes], findings: Findings) -> Iterator[tuple[str, str]]:
    held = b""
    for block in blocks:
        held += block
        end = held.rfind(b"\n") + 1
        if not end and len(held) > LINE_CHARS:
            end = whole_chars(held)
        if end:
            yield "", findings.text(held[:end])
            held = held[end:]
    yield "", findings.text(held)


# What nbconvert and what it uses write to stderr after the program, whether it went well or not.
_CONVERTER = re.compile(
    r"\[NbConvertApp\] "
    r"|.*\b(?:nbconvert|mistune|traitlets|papermill|jupyter_client|nbformat)\b.*\.py:\d+: \w*Warning\b"
)


def without_trailer(lines: list[str]) -> list[str]:
    """Return the lines without empty ones and the converter's at the end."""
    end = len(lines)
    while end:
        last, before = lines[end - 1], lines[end - 2] if end > 1 else ""
        quoted = last.startswith("  ") and _CONVERTER.match(before)  # the source line below a warning
        if last.strip() and not _CONVERTER.match(last) and not quoted:
            break
        end -= 1
    return lines[:end]
