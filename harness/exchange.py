"""Folders through which a worker hands outputs to its judge. Standard library only.

In each a worker writes to `in`; what is taken from there lies in `out`, which is the judge's.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

MEMORY = Path("/dev/shm")  # noqa: S108 (the folder made in it has a random name)
_PREFIX = "ferry-"
_ABANDONED_AFTER_S = 60.0


class NotHandedOverError(ValueError):
    """What a worker says that it has handed over is not there, or is no file of its own."""


class Exchange:
    """A folder in memory, where there is one to be had, and one on disk under `scratch`.

    `folders` are those that a worker writes to. The folder in memory is locked as long as this process lives:
    what a killed run has left there is found by its open lock and removed by the next run.
    """

    def __init__(self, scratch: Path, memory: Path = MEMORY) -> None:
        self._bases = [Path(tempfile.mkdtemp(prefix=_PREFIX, dir=scratch))]
        self._lock = -1
        self._group = -1
        with contextlib.suppress(OSError):
            _remove_abandoned(memory)
            self._bases.insert(0, Path(tempfile.mkdtemp(prefix=_PREFIX, dir=memory)))
            self._lock = _locked(self._bases[0])
        self.clear()

    @property
    def folders(self) -> tuple[str, ...]:
        """Where a worker may write, the best place first."""
        return tuple(str(base / "in") for base in self._bases)

    def grant(self, group: int) -> None:
        """Let a group's processes hand over files, besides this process's own user."""
        self._group = group
        self.clear()

    def take(self, path: str) -> str:
        """Move a file that a worker has handed over to where only driver and judge can write.

        Returns its path there. Raises NotHandedOverError for anything but a file in one of the folders: a
        link would have the judge read, and then remove, what lies elsewhere.
        """
        folder, _, name = path.rpartition("/")
        if folder not in self.folders or name in ("", ".", ".."):
            raise NotHandedOverError(f"{path!r:.200} is in none of the folders for outputs")
        taken = Path(folder).parent / "out" / name
        try:
            Path(path).rename(taken)
            found = taken.lstat()
        except OSError as problem:
            raise NotHandedOverError(f"{path!r:.200}: {problem.strerror}") from problem
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise NotHandedOverError(f"{path!r:.200} is no file of its own")
        return str(taken)

    def clear(self) -> None:
        """Remove what a case has left; a candidate may have removed it, too, even with its folder."""
        for base in self._bases:
            with contextlib.suppress(OSError):
                base.mkdir(mode=0o711, exist_ok=True)
                base.chmod(0o711)
            for folder, mode in ((base / "in", 0o770), (base / "out", 0o700)):
                with contextlib.suppress(OSError):
                    shutil.rmtree(folder, ignore_errors=True)
                    folder.mkdir(exist_ok=True)
                    os.chown(folder, -1, self._group)
                    folder.chmod(mode)

    def close(self) -> None:
        """Remove the folders."""
        for base in self._bases:
            shutil.rmtree(base, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _remove_abandoned(memory: Path) -> None:
    for folder in memory.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > _ABANDONED_AFTER_S:
                os.close(_locked(folder))
                shutil.rmtree(folder)


def _locked(folder: Path) -> int:
    """Return a descriptor that holds the folder's lock. Raises BlockingIOError when somebody else does."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
