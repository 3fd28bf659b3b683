"""Time as an argument: the one place that sleeps."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What policy needs of time, in seconds."""

    def now(self) -> float:
        """Return the wall clock's seconds since the epoch."""

    def monotonic(self) -> float:
        """Return seconds that never go backwards."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        """Return the wall clock's seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds that never go backwards."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
