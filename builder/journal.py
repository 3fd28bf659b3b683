"""A run's journal: every change of state, a line each, appended and on disk before anything goes on.

It is read as far as it has grown since the last look: a run of thousands of parts asks often.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from builder.backends import State
from harness.events import from_plain, to_plain

_STATES = frozenset(State)


def now_text() -> str:
    """Return the time in UTC, to the second, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Entry:
    """One line of a journal: a part's new state. Part 0 is the run as a whole."""

    at: str
    part: int
    state: str
    detail: str = ""


class Journal:
    """The entries of one file, kept up to date."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: list[Entry] = []
        self._of_parts: dict[int, list[Entry]] = {}
        self._read_to = 0
        self._file = 0

    def entries(self) -> list[Entry]:
        """Return all entries; a line cut by a kill is left out."""
        self._look()
        return list(self._entries)

    def of(self, part: int) -> list[Entry]:
        """Return a part's entries."""
        self._look()
        return list(self._of_parts.get(part, ()))

    def state(self, part: int) -> str:
        """Return a part's last state, or an empty string."""
        self._look()
        own = self._of_parts.get(part)
        return own[-1].state if own else ""

    def told(self, part: int) -> State:
        """Return the last state that a part's place has told: what came of fetching is none of its."""
        told = [entry.state for entry in self.of(part) if entry.state in _STATES]
        return State(told[-1]) if told else State.INTENT

    def append(self, part: int, state: str, detail: str) -> None:
        """Write an entry down; one process at a time may call this."""
        line = json.dumps(to_plain(Entry(now_text(), part, state, detail))) + "\n"
        with self._path.open("a+b") as stream:
            if stream.tell() and not _ends_line(stream.fileno()):
                line = "\n" + line  # a killed writer left half a line; keep it apart from ours
            stream.write(line.encode())
            stream.flush()
            os.fsync(stream.fileno())

    def _look(self) -> None:
        """Take in whole lines that are new; another or a shorter file is read from its start."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            found = None
        size, file = (found.st_size, found.st_ino) if found else (0, 0)
        if size < self._read_to or file != self._file:
            self._entries, self._of_parts, self._read_to, self._file = [], {}, 0, file
        if size == self._read_to:
            return
        with self._path.open("rb") as stream:
            stream.seek(self._read_to)
            new = stream.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read_to += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            with contextlib.suppress(ValueError, TypeError, RecursionError):
                self._take(from_plain(Entry, json.loads(line)))

    def _take(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._of_parts.setdefault(entry.part, []).append(entry)


def _ends_line(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    return size == 0 or os.pread(descriptor, 1, size - 1) == b"\n"
