"""The log of a session: records as they come, and the texts that hold them in the end."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from tests.service.kaggle.knobs import LogForm

_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"}
FROZEN_MODULES = (
    "0.00s - Debugger warning: It seems that frozen modules are being used, which may\n"
    "0.00s - make the debugger miss breakpoints. Please pass -Xfrozen_modules=off\n"
    "0.00s - to python to disable frozen modules.\n"
    "0.00s - Note: Debugging will proceed. Set PYDEVD_DISABLE_FILE_VALIDATION=1 to disable this validation.\n"
)
CONVERTER = (
    "/usr/local/lib/python3.12/dist-packages/mistune.py:435: SyntaxWarning: invalid escape sequence '\\|'\n"
    "  cells[i][c] = re.sub('\\\\\\\\\\|', '|', cell)\n"
    "[NbConvertApp] Converting notebook __notebook__.ipynb to notebook\n"
    "[NbConvertApp] Writing 3128 bytes to __notebook__.ipynb\n"
    "[NbConvertApp] Converting notebook __notebook__.ipynb to html\n"
    "[NbConvertApp] Writing 284106 bytes to __results__.html\n"
)


@dataclass(frozen=True)
class Record:
    """One write of the program, cut at line ends and sometimes elsewhere; `time` in seconds."""

    stream_name: str
    time: float
    data: str

    @property
    def json(self) -> str:
        """The record as the service writes it."""
        return json.dumps(asdict(self)).translate(_ESCAPES)

    @property
    def raw_json(self) -> str:
        """The same with its characters as they are."""
        return json.dumps(asdict(self), ensure_ascii=False).translate(_ESCAPES)


class Log:
    """The records of one session. One thread or more write, any number follow."""

    def __init__(self, torn_every: int) -> None:
        self.records: list[Record] = []
        self.ended = False
        self._torn_every = torn_every
        self._lines = 0
        self._began = time.monotonic()
        self._changed = threading.Condition()

    def write(self, stream: str, text: str) -> None:
        """Add a write: a record a line, each so-manieth line two records."""
        with self._changed:
            now = round(time.monotonic() - self._began, 6)
            self.records += [
                Record(stream, now, part) for line in text.splitlines(True) for part in self._tear(line)
            ]
            self._changed.notify_all()

    def end(self) -> None:
        """Say that nothing more will come."""
        with self._changed:
            self.ended = True
            self._changed.notify_all()

    def follow(self, start: int = 0) -> Iterator[Record]:
        """Yield the records from number `start` on, waiting for those to come, until the end."""
        while True:
            with self._changed:
                while not self.ended and len(self.records) <= start:
                    self._changed.wait()
                new = self.records[start:]
            if not new:
                return
            yield from new
            start += len(new)

    def text(self, form: LogForm = "array") -> str:
        """The whole log in one of the forms that people have met."""
        if form == "text":
            return "".join(record.data for record in self.records)
        if form == "lines":
            return "".join(record.json + "\n" for record in self.records)
        array = "[" + "\n,".join(record.json for record in self.records) + "\n]" if self.records else ""
        return array[: len(array) * 2 // 3] if form == "cut array" else array

    def _tear(self, line: str) -> list[str]:
        self._lines += 1
        if self._torn_every and self._lines % self._torn_every == 0 and len(line) > 1:
            return [line[: len(line) // 2], line[len(line) // 2 :]]
        return [line]
