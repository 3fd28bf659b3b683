"""Push from the command line: Ctrl-C at any moment says what has become of the run."""

from __future__ import annotations

from collections.abc import Callable

from builder import crossing
from builder.backends import Backend
from builder.cli._output import say
from builder.clock import SystemClock
from builder.errors import InterruptError
from builder.runs import Run
from builder.spec import RunSpec


def push(spec: RunSpec, backend: Backend, *, rehearsal: bool, when_free: bool) -> Run:
    """Push a spec; see `crossing.push`. InterruptError on Ctrl-C."""
    return guarded(lambda: crossing.push(spec, backend, SystemClock(), say, rehearsal, when_free))


def guarded(push_it: Callable[[], Run]) -> Run:
    """Return the run that `push_it` makes. InterruptError on Ctrl-C, also from before there is a run."""
    try:
        return push_it()
    except KeyboardInterrupt:
        raise InterruptError("interrupted; no run was begun") from None
