"""The events in a log's blocks. What has the marker and cannot be read is reported, never guessed."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from builder.log import Block
from harness.events import MARKER, DamagedEventError, Event, decode

_EVENT_CHARS = 16_384  # within this, an event that line ends were written into is put together again

_CHECK = re.compile(r',"check":"[0-9a-f]{8}"\}')
_LINE = re.compile(r"[^\r\n]*")
# What an event's text never holds: JSON escapes them. A client that prints each record with a line end
# of its own writes them in the middle of an event; its check tells whether taking them out was right.
_INSERTED = re.compile(r"\x1b\[[0-9;]*m|[\r\n]")


@dataclass(frozen=True)
class Damage:
    """Something with the event marker that is no whole event, and the number of its line in the log."""

    line: int
    reason: str


def scan(blocks: Iterable[Block]) -> Iterator[Event | Damage]:
    """Yield what the blocks hold, in their order."""
    held: dict[str, Block] = {}  # a stream's last event, when its end may still come
    for block in blocks:
        if MARKER in block.text or block.stream in held:
            yield from _scan_block(block, held)
    for block in held.values():
        yield Damage(block.first_line, _reason(block.text))


def _scan_block(block: Block, held: dict[str, Block]) -> Iterator[Event | Damage]:
    text, first_line = block.text, block.first_line
    if begun := held.pop(block.stream, None):
        text, first_line = begun.text + text, begun.first_line
    start = text.find(MARKER)
    while start >= 0:
        event, end = _at(text, start)
        following = text.find(MARKER, end)
        if event:
            yield event
        elif following < 0 and len(text) - start < _EVENT_CHARS:
            held[block.stream] = Block(block.stream, first_line + text.count("\n", 0, start), text[start:])
        else:
            yield Damage(first_line + text.count("\n", 0, start), _reason(text[start:following]))
        start = following


def _at(text: str, start: int) -> tuple[Event | None, int]:
    """Return the event whose marker is at `start`, if it is whole, and where it ends."""
    line = _LINE.match(text, start)
    assert line is not None
    event, _ = _first_event(line[0])
    if event:
        return event, line.end()
    window = text[start : start + _EVENT_CHARS]
    event, length = _first_event(_INSERTED.sub("", window))
    for inserted in _INSERTED.finditer(window):
        if inserted.start() >= length:
            break
        length += len(inserted[0])
    return event, start + max(length, len(MARKER))


def _first_event(text: str) -> tuple[Event | None, int]:
    """Return the event that `text` begins with and its length, or None and 0."""
    for check in islice(_CHECK.finditer(text), 4):  # a lever or a flag may be called `check`
        with contextlib.suppress(DamagedEventError):
            return decode(text[: check.end()]), check.end()
    return None, 0


def _reason(text: str) -> str:
    line = text.splitlines()[0]
    try:
        decode(line)
    except DamagedEventError as problem:
        return str(problem)
    return "an event is damaged"
