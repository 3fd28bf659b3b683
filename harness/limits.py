"""When to stop: the run's deadline, a signal, and each case's own limit. Standard library only."""

from __future__ import annotations

import math
import time


class CaseFailureError(Exception):
    """A case has ended without passing; `status`, `kind` and `error` are its row's."""

    def __init__(self, status: str, kind: str, error: str) -> None:
        super().__init__(error)
        self.status = status
        self.kind = kind
        self.error = error


class Limits:
    """The whole run's limit in seconds from now, 0 for none, and whether somebody asked to stop."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._begin = time.monotonic()
        margin = min(60.0, max(5.0, 0.02 * seconds))
        self._end = self._begin + seconds - margin if seconds else math.inf
        self._reason = "deadline"

    def stop(self) -> None:
        """Ask for an end now; a signal handler may call this."""
        if not self.reason():
            self._end, self._reason = time.monotonic(), "stopped"

    def reason(self) -> str:
        """Return why no further work may begin: `stopped`, `deadline`, or nothing."""
        return self._reason if self.overdue(0) else ""

    def overdue(self, seconds: float) -> bool:
        """Whether the run should have ended so many seconds ago."""
        return time.monotonic() >= self._end + seconds

    def left(self) -> float:
        """Return the seconds until no further work may begin."""
        return self._end - time.monotonic()

    def elapsed(self) -> float:
        """Return the seconds since the run began."""
        return time.monotonic() - self._begin


class Watch:
    """Guards one case: `check` raises CaseFailureError once its own limit or the run's has passed."""

    def __init__(self, limits: Limits, seconds: float) -> None:
        self._limits = limits
        self._seconds = seconds
        self._begin = time.monotonic()

    def left(self) -> float:
        """Return the seconds until the case's own limit or the run's, whichever comes first."""
        own = self._begin + self._seconds - time.monotonic() if self._seconds else math.inf
        return min(own, self._limits.left())

    def check(self) -> None:
        """Raise `not_run` when the run must end, `timeout` when the case has had its time."""
        spent = time.monotonic() - self._begin
        if reason := self._limits.reason():
            raise CaseFailureError("not_run", reason, f"cut after {spent:.1f} s: {WORDS[reason]}")
        if self._seconds and spent > self._seconds:
            raise CaseFailureError("timeout", "timeout", f"the case took longer than its {self._seconds:g} s")


WORDS = {
    "stopped": "the run was told to stop",
    "deadline": "the run's deadline has come",
    "wrong_accelerator": "wrong accelerator",
}
