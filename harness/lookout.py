"""What a process is seen to do to others, by an audit hook of Python's, which nobody can take out again."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = str(Path(__file__).resolve().parent) + os.sep
_OTHERS = re.compile(r"/proc/(\d+)/(?:task/\d+/)?(?:mem|environ|fd(?:info)?/\d+)")
_REACHING = frozenset({"ptrace", "process_vm_readv", "process_vm_writev", b"ptrace", b"process_vm_writev"})
_ALLOCATOR = frozenset({"mallopt", "malloc_trim", b"mallopt", b"malloc_trim"})
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_MOVING = ("os.rename", "os.remove", "os.truncate", "os.link", "os.symlink", "os.chmod")

Found = tuple[str, str]  # kind, and words


class Lookout:
    """From now on keeps the first thing that this process or its threads do to others; it stops nothing."""

    def __init__(self) -> None:
        self.found: Found | None = None
        self._me, self._parent = os.getpid(), os.getppid()
        looks: dict[str, Callable[[tuple[Any, ...]], Found | None]] = {
            "open": self._opened,
            "ctypes.dlsym": self._looked_up,
            "os.kill": self._signalled,
            **dict.fromkeys(_MOVING, _moved),
        }

        def look(event: str, arguments: tuple[Any, ...]) -> None:
            if event in looks and self.found is None:
                try:
                    self.found = looks[event](arguments)
                except Exception:  # noqa: BLE001 (a hook that raises would stop the act that it only watches)
                    return

        sys.addaudithook(look)

    def _opened(self, arguments: tuple[Any, ...]) -> Found | None:
        path, mode, flags = arguments
        if not isinstance(path, (str, bytes)):
            return None
        where = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 (no file is to be looked at here)
        other = _OTHERS.match(where)
        if other and int(other[1]) != self._me:
            return "reached_out", f"the candidate's process opened {other[0]} of another process"
        writes = any(letter in str(mode or "") for letter in "wax+") or bool(int(flags or 0) & _WRITING)
        return _touched(where) if writes else None

    def _looked_up(self, arguments: tuple[Any, ...]) -> Found | None:
        if arguments[1] in _ALLOCATOR:
            words = f"the candidate's process looked up {arguments[1]}: the allocator is the baseline's, too"
            return "process_settings", words
        if arguments[1] not in _REACHING:
            return None
        return "reached_out", f"the candidate's process looked up {arguments[1]}, which reaches into others"

    def _signalled(self, arguments: tuple[Any, ...]) -> Found | None:
        pid, number = arguments
        if number and pid == self._parent:
            return "reached_out", f"the candidate's process sent signal {number} to the driver"
        return None


def _moved(arguments: tuple[Any, ...]) -> Found | None:
    for path in arguments[:2]:
        if isinstance(path, (str, bytes)):
            found = _touched(os.path.abspath(os.fsdecode(path)))  # noqa: PTH100
            if found:
                return found
    return None


def _touched(where: str) -> Found | None:
    if not where.startswith(HERE):
        return None
    return "harness_files", f"the candidate's process opened harness/{where.removeprefix(HERE)} to write"
