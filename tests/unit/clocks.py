"""Clocks that nobody waits for."""

from __future__ import annotations

from builder.clock import SystemClock


class Hourglass(SystemClock):
    """A clock on which time passes by sleeping alone."""

    def __init__(self) -> None:
        self.naps: list[float] = []

    def monotonic(self) -> float:
        """Return the seconds slept."""
        return sum(self.naps)

    def now(self) -> float:
        """Return the time with the seconds slept."""
        return super().now() + sum(self.naps)

    def sleep(self, seconds: float) -> None:
        """Be later at once."""
        self.naps.append(seconds)
