"""A log of JSON records, in any spelling and any state, to pieces of text.

A record is one write, not one line: `{"stream_name":"stdout","time":3.2,"data":"a\\nb"}`.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from operator import attrgetter

import msgspec

from builder.logforms import RECORD_START, Findings, whole_chars

RECORD_BYTES = 1 << 20  # a longer record is read in pieces
_HEAD_BYTES = 4096  # where a long record's `data` must have begun

# Between records: commas, brackets, the end of a long record, and what an event stream adds.
_SEPARATOR = re.compile(r'[\s,\[\]}"]*|data:\s*(?:END_OF_LOG)?\s*|(?:event|id|retry)?:.*')
_DATA = re.compile(rb'"data"\s*:\s*"')
_STREAM = re.compile(rb'"stream_name"\s*:\s*"(\w*)"')
# The inside of a JSON string, up to its end or to an escape that is not whole yet.
_STRING = re.compile(rb'(?:[^"\\]++|\\[^u]|\\u[0-9a-fA-F]{4}|\\u(?=.{4}))*+', re.S)
_ESCAPE = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?')

Piece = tuple[str, str]  # stream, text


class _Write(msgspec.Struct, gc=False):
    data: str
    stream_name: str = ""


_decode_array = msgspec.json.Decoder(list[_Write]).decode
_decode_first = json.JSONDecoder(strict=False).raw_decode
_by_stream = attrgetter("stream_name")


def pieces(blocks: Iterable[bytes], findings: Findings) -> Iterator[Piece]:
    """Yield (stream, text) in file order. An empty block means that nothing is new for now."""
    records = _Records(findings)
    for block in blocks:
        yield from records.feed(block)
    yield from records.close()


class _Records:
    """Cuts blocks of bytes at the starts of records; `_held` begins with the last, unfinished one."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._held = b""
        self._is_closed = False
        self._long: str | None = None  # the stream of a long record whose `data` is being read

    def feed(self, block: bytes) -> Iterator[Piece]:
        self._held += block
        if self._long is not None:
            yield from self._go_on()
        cut = _last_start(self._held)
        if not block and _is_whole(self._held):
            self._is_closed = _ends_array(self._held)
            cut = len(self._held)
        if cut > 0:
            whole, self._held = self._held[:cut], self._held[cut:]
            yield from self._many(whole)
        if len(self._held) > RECORD_BYTES:
            yield from self._too_long()

    def close(self) -> Iterator[Piece]:
        self._findings.unclosed = not (_ends_array(self._held) if self._held.strip() else self._is_closed)
        if self._long is not None:
            self._findings.damaged_records += 1
        else:
            yield from self._many(self._held)

    def _many(self, data: bytes) -> Iterator[Piece]:
        try:
            writes = _decode_array(b"[%b]" % data.strip(b" \t\r\n,[]"))
        except msgspec.DecodeError:
            yield from self._one_by_one(data)
            return
        for stream, group in groupby(writes, _by_stream):
            yield stream, "".join([write.data for write in group])

    def _one_by_one(self, data: bytes) -> Iterator[Piece]:
        starts = [match.start() for match in RECORD_START.finditer(data)]
        yield from self._between(self._findings.text(data[: starts[0] if starts else None]))
        for start, end in pairwise([*starts, len(data)]):
            yield from self._one(data[start:end])

    def _one(self, data: bytes) -> Iterator[Piece]:
        text = self._findings.text(data)
        try:
            record, end = _decode_first(text)
        except (ValueError, RecursionError):
            yield from self._damaged(data)
            return
        if "data" in record:
            yield str(record.get("stream_name", "")), _as_text(record["data"])
            yield from self._between(text[end:])
        else:
            yield from self._between(text)

    def _between(self, text: str) -> Iterator[Piece]:
        for line in text.split("\n"):
            if not _SEPARATOR.fullmatch(line):
                self._findings.stray_lines += 1
                yield "", line.removeprefix("data: ") + "\n"

    def _damaged(self, data: bytes) -> Iterator[Piece]:
        self._findings.damaged_records += 1
        opening = _DATA.search(data)
        if opening is None:
            yield "", self._findings.text(data) + "\n"
            return
        inside = _STRING.match(data, opening.end())
        yield _stream_of(data), self._unescaped(inside[0] if inside else b"")

    def _too_long(self) -> Iterator[Piece]:
        head = self._held[:_HEAD_BYTES]
        opening = _DATA.search(head)
        if RECORD_START.match(head) and opening:
            self._long, self._held = _stream_of(head), self._held[opening.end() :]
            yield from self._go_on()
        else:
            stray, self._held = self._held[:-_HEAD_BYTES], self._held[-_HEAD_BYTES:]
            self._findings.damaged_records += 1
            yield "", self._findings.text(stray)

    def _go_on(self) -> Iterator[Piece]:
        inside = _STRING.match(self._held)
        assert inside is not None and self._long is not None
        end = inside.end()
        is_closed = self._held[end : end + 1] == b'"'
        if not is_closed:
            end = whole_chars(inside[0])
        yield self._long, self._unescaped(self._held[:end])
        self._held = self._held[end:]
        if is_closed:
            self._long = None

    def _unescaped(self, inside: bytes) -> str:
        text = self._findings.text(inside)
        try:
            return str(json.loads(f'"{text}"', strict=False))
        except ValueError:
            mended = _ESCAPE.sub(lambda match: match[0] if match[1] else "\\\\", text)
            return str(json.loads(f'"{mended}"', strict=False))


def _last_start(data: bytes) -> int:
    for begin in (max(0, len(data) - _HEAD_BYTES), 0):
        last = deque(RECORD_START.finditer(data, begin), maxlen=1)
        if last:
            return last[0].start()
    return -1


def _is_whole(data: bytes) -> bool:
    try:
        return bool(_decode_array(b"[%b]" % data.strip(b" \t\r\n,[]")))
    except msgspec.DecodeError:
        return False


def _ends_array(data: bytes) -> bool:
    return data.rstrip().endswith(b"]")


def _stream_of(data: bytes) -> str:
    name = _STREAM.search(data)
    return name[1].decode() if name else ""


def _as_text(data: object) -> str:
    if isinstance(data, str):
        return data
    return "" if data is None else json.dumps(data) + "\n"
