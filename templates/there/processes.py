"""Which process is which, told from `/proc`: a number alone may be another's now. Standard library only."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Process:
    """A process that no later one is taken for: its number, when it began, and in which life of a machine."""

    pid: int
    began: str
    boot: str

    @property
    def is_alive(self) -> bool:
        """Whether it runs still; one that only waits to be collected does not."""
        return self.boot == boot() and _stat(self.pid)[1:] == (self.began, True)

    def text(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self))


def process(pid: int) -> Process:
    """Return a running process by its number."""
    return Process(pid, _stat(pid)[1], boot())


def boot() -> str:
    """Return what tells this life of this machine from any other."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _stat(pid: int) -> tuple[int, str, bool]:
    """Return parent, beginning in clock ticks, and whether it runs; (0, "", False) for none."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[1]), fields[19], fields[0] not in "ZX"
    return 0, "", False


def adopt_orphans() -> None:
    """Become the parent of what a descendant leaves behind, so that it is found and collected."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(ancestor: int) -> list[int]:
    """Return the numbers of all running processes below one."""
    below: dict[int, list[int]] = {}
    for pid in (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()):
        parent, _, runs = _stat(pid)
        if runs:
            below.setdefault(parent, []).append(pid)
    found, waiting = [], [ancestor]
    while waiting:
        children = below.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def end_descendants(ancestor: int, limit_s: float = 10.0) -> None:
    """Kill all below a process, again until there is none: a killed one may just have started another."""
    end = time.monotonic() + limit_s
    while (left := descendants(ancestor)) and time.monotonic() < end:
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        collect()
        time.sleep(0.02)


def collect() -> None:
    """Collect the dead among our children."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
