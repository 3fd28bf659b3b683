"""Where the driver's lines go: stdout and the events file. Standard library only."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.events import Body, Event, Name, Seal, encode

EVENTS_FILE = "ferry-events.jsonl"

Write = Callable[[bytes], None]


class Outlet:
    """Numbers, seals and writes one attempt's events; many threads may use it.

    A place that can no longer be written to is given up; the others go on.
    """

    def __init__(self, run: str, part: int, attempt: int, places: Sequence[Write]) -> None:
        self.seal = Seal()
        self._name = (run, part, attempt)
        self._places = list(places)
        self._lock = threading.Lock()
        self._seq = 0
        self._begin = time.monotonic()
        self._closed = False

    def emit(self, *bodies: Body, last: bool = False) -> None:
        """Write the events in one go. After the `last` one nothing is written any more."""
        with self._lock:
            lines = []
            for body in bodies:
                self._seq += 1
                event = Event(Name(*self._name, self._seq), time.monotonic() - self._begin, body)
                lines.append(encode(event, self.seal))
            self._put(lines, self._places)
            self._closed = self._closed or last

    def say(self, lines: Sequence[str]) -> None:
        """Write lines that are no events: to stdout, the first place, alone."""
        with self._lock:
            self._put(lines, self._places[:1])

    def replay(self, lines: Sequence[str]) -> None:
        """Write an earlier attempt's event lines as they are."""
        with self._lock:
            self._put(lines, self._places)

    def _put(self, lines: Sequence[str], places: list[Write]) -> None:
        if self._closed or not lines:
            return
        data = "".join(line + "\n" for line in lines).encode()
        for place in places:
            place(data)


def to_stdout() -> Write:
    """Return a writer to stdout that falls silent once nobody listens."""
    return tolerant(None if sys.stdout is None else os.dup(sys.stdout.fileno()))


def to_events_file(folder: Path) -> Write:
    """Return a writer to a new events file in `folder`; an older one is kept under another name.

    Where there can be none, as in a read-only folder, stderr says so and the log alone holds the events.
    """
    path = folder / EVENTS_FILE
    try:
        if path.exists():
            kept = (folder / f"ferry-events.{number}.jsonl" for number in range(1, 10_000))
            path.rename(next(name for name in kept if not name.exists()))
        return tolerant(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    except OSError as problem:
        print(f"harness.driver: no {EVENTS_FILE} in {folder}: {problem.strerror}", file=sys.stderr)
        return tolerant(None)


def tolerant(descriptor: int | None) -> Write:
    """Unbuffered: what is written is out of this process when the call returns."""
    alive = [descriptor] if descriptor is not None else []

    def write(data: bytes) -> None:
        with contextlib.suppress(OSError):
            while alive and data:
                try:
                    data = data[os.write(alive[0], data) :]
                except OSError:
                    os.close(alive.pop())

    return write
