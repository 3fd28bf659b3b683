"""Folders through which a worker hands outputs to its judge. Standard library only."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

MEMORY = Path("/dev/shm")  # noqa: S108 (the folder made in it has a random name)
_PREFIX = "ferry-"
_ABANDONED_AFTER_S = 60.0


class Exchange:
    """A folder in memory, where there is one to be had, and one on disk under `scratch`.

    The folder in memory is locked as long as this process lives: what a killed run has left there is found
    by its open lock and removed by the next run.
    """

    def __init__(self, scratch: Path, memory: Path = MEMORY) -> None:
        self.folders: tuple[str, ...] = (tempfile.mkdtemp(prefix=_PREFIX, dir=scratch),)
        self._lock = -1
        with contextlib.suppress(OSError):
            _remove_abandoned(memory)
            folder = tempfile.mkdtemp(prefix=_PREFIX, dir=memory)
            self.folders = (folder, *self.folders)
            self._lock = _locked(Path(folder))

    def clear(self) -> None:
        """Remove what a case has left; a candidate may have removed it, too, even with its folder."""
        for folder in self.folders:
            with contextlib.suppress(OSError):
                Path(folder).mkdir(mode=0o700, exist_ok=True)
                for file in Path(folder).iterdir():
                    file.unlink()

    def close(self) -> None:
        """Remove the folders."""
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)
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
