"""Who else works while a candidate is timed: its own other processes, its own threads. Standard library only.

Seen by what they do. A process is a candidate's when it has the worker's user, session or tag, or descends
from it; what counts is the time on a core that it gets. Processes that torch has for compiling wait while
nothing is compiled: before the first block they are given time to fall silent. A thread counts when it works
while the baseline is called, which no thread of the candidate's serves.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from harness.limits import CaseFailureError

MOST_SHARE = 0.2  # of the calls' wall, by processes beside them; of their own work, by threads
_LEAST_S = 0.05  # less work is beyond the kernel's books, which count in hundredths
_LEAST_NS = 5_000_000  # of a thread's, whose clock is finer
_SILENCE_S, _PATIENCE_S = 0.25, 10.0
_QUIET = 0.1  # of a core
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100

_frames = sys._current_frames
_clock_of = getattr(time, "pthread_getcpuclockid", None)
_read_clock = getattr(time, "clock_gettime_ns", None)
_my_ident = threading.get_ident
_my_work_ns = time.thread_time_ns


# --- processes, seen by the driver ------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """What /proc says of one process; ticks are of itself, `waited` of children that have ended."""

    pid: int
    parent: int
    session: int
    ticks: int
    waited: int
    began: int


@dataclass
class Helpers:
    """The processes of a worker beside itself. `mark` stands in the environment of what it has started."""

    worker: int
    uid: int | None
    mark: bytes
    worked_s: float = 0.0
    wall_s: float = 0.0
    _before: dict[int, int] = field(default_factory=dict)
    _start: float = 0.0

    def begin(self) -> None:
        """Calls are timed from now on."""
        self._before, self._start = self._ticks(), time.monotonic()

    def end(self) -> None:
        """Calls have been timed. Raises CaseFailureError once others have worked too much meanwhile."""
        self.wall_s += time.monotonic() - self._start
        self.worked_s += _grown_s(self._before, self._ticks())
        if self.worked_s > max(_LEAST_S, MOST_SHARE * self.wall_s):
            words = (
                f"processes that the candidate has started worked for {self.worked_s:.3g} s "
                f"while calls were timed for {self.wall_s:.3g} s"
            )
            raise CaseFailureError("disqualified", "helpers", words)

    def settle(self, patience_s: float = _PATIENCE_S) -> None:
        """Wait until the processes have nothing to do, or the patience is at its end."""
        end = time.monotonic() + patience_s
        before = self._ticks()
        while len(before) > 1 and time.monotonic() < end:
            time.sleep(_SILENCE_S)
            now = self._ticks()
            if _grown_s(before, now) <= _QUIET * _SILENCE_S:
                return
            before = now

    def refuse_on_card(self, seen: Collection[int]) -> None:
        """Raise CaseFailureError when one of the processes is among those that were seen to use the card.

        In a container the numbers may be those of outside: where the worker is not seen, nobody knows.
        """
        on_card = sorted(self.pids & set(seen)) if self.worker in seen else []
        if on_card:
            words = (
                f"a process that the candidate has started, {on_card[0]}, holds the card while it is timed"
            )
            raise CaseFailureError("disqualified", "helpers", words)

    @property
    def pids(self) -> set[int]:
        """The processes' numbers."""
        return {seen.pid for seen in self._family()} - {self.worker}

    def _ticks(self) -> dict[int, int]:
        """Return each process's time on a core; the worker's is that of its children that have ended."""
        return {
            seen.pid: seen.waited + (seen.ticks if seen.pid != self.worker else 0) for seen in self._family()
        }

    def _family(self) -> list[Seen]:
        """Return the worker and its helpers."""
        everybody = {seen.pid: seen for path in Path("/proc").glob("[0-9]*") if (seen := _look(path))}
        if self.worker not in everybody:
            return []
        since = everybody[self.worker].began
        young = [seen for seen in everybody.values() if seen.began >= since]
        return [seen for seen in young if self._is_ours(seen, everybody)]

    def _is_ours(self, seen: Seen, everybody: dict[int, Seen]) -> bool:
        if seen.session == self.worker or self._descends(seen, everybody):
            return True
        with contextlib.suppress(OSError):
            folder = Path(f"/proc/{seen.pid}")
            if self.uid is not None:
                return folder.stat().st_uid == self.uid
            return self.mark in (folder / "environ").read_bytes().split(b"\0")
        return False

    def _descends(self, seen: Seen, everybody: dict[int, Seen]) -> bool:
        passed = set()
        pid = seen.pid
        while pid in everybody and pid not in passed:
            if pid == self.worker:
                return True
            passed.add(pid)
            pid = everybody[pid].parent
        return False


def _look(folder: Path) -> Seen | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        cells = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        parent, session, began = int(cells[1]), int(cells[3]), int(cells[19])
        own, waited = (sum(map(int, cells[place : place + 2])) for place in (11, 13))
        return Seen(int(folder.name), parent, session, own, waited, began)
    return None


def _grown_s(before: dict[int, int], after: dict[int, int]) -> float:
    """Return how many seconds on a core the processes got in between; what is new has got them all since."""
    return sum(max(0, ticks - before.get(pid, 0)) for pid, ticks in after.items()) / _TICKS


# --- threads, seen by the worker --------------------------------------------------------------------------


@dataclass
class Threads:
    """What this process's other Python threads work while a call is made that needs none of them.

    It is held against the work of the thread that calls: a wall would be longer on a busy machine.
    """

    worked_ns: int = 0
    own_ns: int = 0
    _before: dict[int, int] = field(default_factory=dict)
    _start: int = 0

    def begin(self) -> None:
        """A call begins."""
        self._before, self._start = _spent_ns(), _my_work_ns()

    def end(self) -> None:
        """The call is over."""
        self.own_ns += _my_work_ns() - self._start
        after = _spent_ns()
        self.worked_ns += sum(
            max(0, after[ident] - ns) for ident, ns in self._before.items() if ident in after
        )

    def complaint(self) -> str:
        """Return what is to be said against them, or nothing."""
        if self.worked_ns <= max(_LEAST_NS, MOST_SHARE * self.own_ns):
            return ""
        return (
            f"threads of the candidate's worked for {self.worked_ns / 1e6:.3g} ms "
            f"while the baseline was called, whose own took {self.own_ns / 1e6:.3g} ms"
        )


def _spent_ns() -> dict[int, int]:
    """Return the time on a core that each other Python thread has had."""
    spent: dict[int, int] = {}
    if _clock_of is None or _read_clock is None:
        return spent
    me = _my_ident()
    for ident in _frames():
        if ident != me:
            with contextlib.suppress(OSError):
                spent[ident] = _read_clock(_clock_of(ident))
    return spent
