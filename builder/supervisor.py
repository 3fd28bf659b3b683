"""The detached process that owns a local run: its child, its log and its deadline.

    python -c "from builder.supervisor import main; main()" PART_FOLDER KERNEL TIMEOUT_S PYTHON

It leads its own session, so that neither a closed terminal nor a killed host ends the run, and holds the lock
on `local/lock` for as long as it lives: that lock, not a process number, says whether the run is alive.
"""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from builder.runs import atomic_write
from harness.events import to_plain

GRACE_S = 30.0  # the kernel stops by itself before its deadline; after this much more it is killed


@dataclass(frozen=True)
class Desk:
    """The supervisor's files in a part's folder."""

    part: Path

    @property
    def lock(self) -> Path:
        """Held while the supervisor lives."""
        return self.part / "local" / "lock"

    @property
    def started(self) -> Path:
        """Written when the child has started: a `Started`."""
        return self.part / "local" / "started.json"

    @property
    def ended(self) -> Path:
        """Written when the child is gone and the log is whole: an `Ended`."""
        return self.part / "local" / "ended.json"

    @property
    def log(self) -> Path:
        """The log as it grows, in Kaggle's form."""
        return self.part / "local" / "log.live"

    @property
    def work(self) -> Path:
        """The kernel's working folder."""
        return self.part / "local" / "work"


@dataclass(frozen=True)
class Started:
    """Who supervises: process numbers."""

    pid: int
    child: int


@dataclass(frozen=True)
class Ended:
    """How the child ended. `reason`: ended, stopped, deadline."""

    returncode: int
    reason: str


class LogWriter:
    """Writes a log in Kaggle's form: a JSON array of writes, commas leading, each flushed at once."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._separator = "["

    def write(self, name: str, data: str) -> None:
        """Append one record. `name` is the stream's, stdout or stderr."""
        record = {"stream_name": name, "time": round(time.monotonic() - self._began, 6), "data": data}
        with self._lock, contextlib.suppress(OSError):  # a full disk must not hold up the program
            begin, self._separator = self._separator, ","
            self._stream.write(f"{begin}{json.dumps(record)}\n".encode())
            self._stream.flush()

    def close(self) -> None:
        """End the array."""
        with self._lock:
            self._stream.write(b"[]\n" if self._separator == "[" else b"]\n")
            self._stream.flush()
            os.fsync(self._stream.fileno())

    def relay(self, name: str, pipe: IO[bytes]) -> None:
        """Copy a pipe into the log until its writers are gone, a record a line or piece of one."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while block := os.read(pipe.fileno(), 1 << 16):
            for piece in decoder.decode(block).splitlines(keepends=True):
                self.write(name, piece)


def supervise(desk: Desk, command: list[str], timeout_s: float) -> None:
    """Run `command` in the working folder, log it, end it at its deadline, and say how it ended."""
    desk.work.mkdir(parents=True, exist_ok=True)
    with (
        desk.log.open("wb") as stream,
        subprocess.Popen(
            command,
            cwd=desk.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as child,
    ):
        log = LogWriter(stream)
        reasons: list[str] = []

        def stop(*_: object) -> None:
            reasons.append("stopped")
            child.terminate()

        signal.signal(signal.SIGTERM, stop)
        atomic_write(desk.started, json.dumps(to_plain(Started(os.getpid(), child.pid))))
        print("started", flush=True)  # noqa: T201 - the submitter waits for this word
        with _relaying(log, child):
            if not _wait(child, timeout_s + GRACE_S if timeout_s else None, reasons):
                reasons.append("deadline")
                child.terminate()
                _wait(child, GRACE_S, [])
            _kill_group(child)
        log.close()
    reason = reasons[0] if reasons else "ended"
    atomic_write(desk.ended, json.dumps(to_plain(Ended(child.returncode, reason))))


@contextlib.contextmanager
def _relaying(log: LogWriter, child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Copy the child's output into the log until all its writers are gone."""
    assert child.stdout
    assert child.stderr
    readers = [
        threading.Thread(target=log.relay, args=("stdout", child.stdout)),
        threading.Thread(target=log.relay, args=("stderr", child.stderr)),
    ]
    for reader in readers:
        reader.start()
    yield
    for reader in readers:
        reader.join()


def _wait(child: subprocess.Popen[bytes], limit_s: float | None, reasons: list[str]) -> bool:
    """Wait for the child; False when the limit passed, or the grace after it was asked to stop did."""
    end = None if limit_s is None else time.monotonic() + limit_s
    while True:
        try:
            child.wait(0.2)
            return True
        except subprocess.TimeoutExpired:
            if reasons and end is None:
                end = time.monotonic() + GRACE_S
            if end is not None and time.monotonic() > end:
                return False


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    """End whatever the child left behind in its session; leftovers would hold the pipes open."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def main() -> None:
    """Entry point: leave the starter's family, then take the lock or go; a part is run once."""
    if os.fork():
        os._exit(0)
    part, kernel, timeout_s, python = sys.argv[1:5]
    desk = Desk(Path(part))
    with desk.lock.open("a") as lock:
        if _take(lock) and not desk.started.exists():
            supervise(desk, [python, kernel], float(timeout_s))


def _take(lock: IO[str]) -> bool:
    """Take the lock; False when another supervisor has it. Someone who only looks holds it for a blink."""
    for _ in range(20):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.05)
    return False
