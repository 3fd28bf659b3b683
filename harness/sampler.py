"""A program that answers again and again, such as `nvidia-smi --loop`. Standard library only."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

_MOST_KEPT = 20_000

# The program ends when its stdin does: with `stop`, and with this process, whatever ends it.
_UNTIL_STDIN_ENDS = ("sh", "-c", '"$@" & read -r _; kill $!', "sh")


class Sampler(Generic[T]):
    """A program that repeats its answer until `stop`, and a thread that reads it; the last hours are kept.

    `parse` makes a reading of a line, or None of one that is none.
    """

    def __init__(self, command: Sequence[str], parse: Callable[[str], T | None]) -> None:
        self._parse = parse
        self._taken: deque[tuple[float, T]] = deque(maxlen=_MOST_KEPT)
        self._process: subprocess.Popen[bytes] | None = None
        with contextlib.suppress(OSError, RuntimeError):  # no terminal, process or thread to be had
            self._mine, its = os.openpty()  # into a pipe a program may hold back what it prints
            self._thread = threading.Thread(target=self._listen, daemon=True)
            try:
                self._process = subprocess.Popen(
                    [*_UNTIL_STDIN_ENDS, *command],
                    stdin=subprocess.PIPE,
                    stdout=its,
                    stderr=subprocess.DEVNULL,
                )
            finally:
                os.close(its)
            self._thread.start()

    def since(self, begin: float) -> list[T]:
        """Return the readings since a moment of the monotonic clock, the first one first."""
        return [reading for taken, reading in list(self._taken) if taken >= begin]

    def stop(self) -> None:
        """End the program."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=1)
            with contextlib.suppress(RuntimeError):  # it was not started
                self._thread.join(timeout=1)

    def _listen(self) -> None:
        with contextlib.suppress(OSError), os.fdopen(self._mine, "rb") as lines:  # EIO: the program has ended
            for line in lines:
                reading = self._parse(line.decode(errors="replace"))
                if reading is not None:
                    self._taken.append((time.monotonic(), reading))
