"""Push from the command line: Ctrl-C at any moment says what has become of the run."""

from __future__ import annotations

from collections.abc import Callable

from builder import crossing, runs
from builder.backends import Backend, State
from builder.cli._output import say
from builder.clock import SystemClock
from builder.errors import InterruptError
from builder.runs import Run
from builder.spec import RunSpec


def push(spec: RunSpec, backend: Backend, *, rehearsal: bool, when_free: bool) -> Run:
    """Push a spec; see `crossing.push`. InterruptError on Ctrl-C."""
    return guarded(lambda: crossing.push(spec, backend, SystemClock(), say, rehearsal, when_free))


def guarded(push_it: Callable[[], Run]) -> Run:
    """Return the run that `push_it` makes. InterruptError on Ctrl-C, which says what has become of it."""
    known = {run.id for run in runs.all_runs()}
    try:
        return push_it()
    except KeyboardInterrupt:
        begun = [run for run in runs.all_runs() if run.id not in known]
        if not begun:
            raise InterruptError("interrupted; no run was begun") from None
        raise _interrupted(begun[0]) from None


def _interrupted(run: Run) -> InterruptError:
    if run.state(crossing.FIRST_PART) == State.HELD:
        return InterruptError(
            f"run {run.id} was not pushed: no session was free", f"to push it: ferry resume {run.id}"
        )
    return InterruptError(
        f"the push of run {run.id} was interrupted", f"to see whether it was accepted: ferry pull {run.id}"
    )
