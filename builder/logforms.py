"""What a file is that is said to be a log: its encoding, its form, and words for what is wrong with it."""

from __future__ import annotations

import codecs
import enum
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

HEAD_BYTES = 65_536  # what a form is recognised by
LIVE_HEAD_BYTES = 200  # what must do when nothing more has come yet


class Form(enum.StrEnum):
    """How a log is written down."""

    EMPTY = "an empty file"
    TEXT = "plain text"
    ARRAY = "a JSON array of records"
    LINES = "JSON records, one a line"
    STREAM = "an event stream of JSON records"
    FOREIGN = "no log"

    @property
    def has_records(self) -> bool:
        """Whether the text is inside JSON records, each a write to stdout or stderr."""
        return self in (Form.ARRAY, Form.LINES, Form.STREAM)


# A quote inside a JSON string has a backslash before it, so this is where a record starts and nothing else.
RECORD_START = re.compile(rb'\{\s*"(?:stream_name|time|data)"\s*:')
_FIRST_RECORD = re.compile(rb'(?:^|\})(?:[\s,\[]*|data:[ \t]*)(?=\{\s*"(?:stream_name|time|data)"\s*:)', re.M)

_UNPACK = "unpack it and give the log inside"
_FOREIGN = (
    (rb"PK\x03\x04", "a ZIP archive", _UNPACK),
    (rb"\x1f\x8b", "a gzip archive", _UNPACK),
    (rb"\x89PNG|\xff\xd8\xff|GIF8", "a picture", "give the log as text"),
    (rb"%PDF", "a PDF document", "give the log as text"),
    (
        rb"(?i)\s*<(?:!doctype html|html|head|\?xml)",
        "a web page, perhaps one that says no",
        "fetch the log again",
    ),
    (
        rb'\s*\{\s*"(?:cells|metadata|nbformat\w*)"\s*:',
        "a notebook",
        "give the ferry-events.jsonl that its run left",
    ),
    (rb"(?:schema,run_id|case_id,side),", "a table of results", "give the log that it was made from"),
    (rb'\s*\{\s*"(?:files|log)"\s*:', "an answer of Kaggle's service", "give the text of its `log` field"),
    (rb'\s*\{\s*"(?:schema|suite)"\s*:', "a file that ferry wrote", "give the run's log.raw"),
)


def encoding_of(head: bytes) -> str:
    """Return `utf-16`, `utf-16-le` or `utf-16-be`, or `utf-8` for all that holds ASCII as it is."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    even, odd = head[0:64:2], head[1:64:2]
    if len(head) >= 8 and any(even) != any(odd):
        return "utf-16-le" if any(even) else "utf-16-be"
    return "utf-8"


def to_utf8(blocks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Yield UTF-8 for blocks of `encoding`, without a byte order mark."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for block in blocks:
        yield decoder.decode(block).encode()
    yield decoder.decode(b"", final=True).encode()


def form_of(head: bytes) -> Form:
    """Recognise a log's form by the UTF-8 bytes that it starts with."""
    if not head.strip():
        return Form.EMPTY
    first = _FIRST_RECORD.search(head)
    if first and b'"stream_name"' in head:
        if b"data:" in first[0]:
            return Form.STREAM
        return Form.ARRAY if b"[" in head[: first.end()] or b"," in first[0] else Form.LINES
    return Form.FOREIGN if foreign_words(head) else Form.TEXT


def foreign_words(head: bytes) -> str:
    """Say what a file that is no log is, and what to give instead; empty for a log."""
    for pattern, what, instead in _FOREIGN:
        if re.match(pattern, head):
            return f"it is {what}, not a log: {instead}"
    return ""


def whole_chars(data: bytes) -> int:
    """Return the length of UTF-8 bytes without a character that is cut at their end."""
    for back, byte in enumerate(reversed(data[-3:]), 1):
        if byte >= 0xC0:
            length = 2 + (byte >= 0xE0) + (byte >= 0xF0)
            return len(data) - back if length > back else len(data)
        if byte < 0x80:
            break
    return len(data)


@dataclass
class Findings:
    """What was wrong in a log, counted while it is read."""

    foreign: str = ""
    empty: bool = False
    unclosed: bool = False
    damaged_records: int = 0
    stray_lines: int = 0
    legacy_lines: int = 0
    long_lines: int = 0

    def text(self, data: bytes) -> str:
        """Decode bytes; a line that is not UTF-8 is read in Windows' western code page and counted."""
        try:
            return data.decode()
        except UnicodeDecodeError:
            return "\n".join(map(self._line, data.split(b"\n")))

    def _line(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.legacy_lines += 1
            return data.decode("cp1252", "replace")

    def sentences(self) -> list[str]:
        """Return what was found in plain words."""
        found = (
            (self.foreign, self.foreign),
            (self.empty, "it is empty: the run has written nothing yet, or its log was lost"),
            (self.unclosed, "its JSON array has no end: the log is cut short, or still grows"),
            (
                self.damaged_records,
                f"damaged records: {self.damaged_records}; of these, what could be read was",
            ),
            (self.stray_lines, f"lines that are no records: {self.stray_lines}; read as plain text"),
            (self.legacy_lines, f"lines that are not UTF-8: {self.legacy_lines}; read as Windows-1252"),
            (self.long_lines, f"lines too long to hold, cut in {self.long_lines} places"),
        )
        return [sentence for is_so, sentence in found if is_so]
