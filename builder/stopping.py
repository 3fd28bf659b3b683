"""End a run where it runs, and keep what had come of its log where ending it takes that away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from builder import submission
from builder.backends import Backend, State, Submission
from builder.clock import Clock
from builder.errors import InfrastructureError, UsageError
from builder.runs import Run, atomic_write
from builder.waiting import IDLE_S

BEGIN_S = 60.0  # so long may a log take to begin before its run is stopped
KEEP_S = 60.0  # after which a log that is never silent is taken to be here


def give_up(run: Run, part: int) -> bool:
    """End a part that is held back here for a free session: who waits with it then leaves.

    False: it is not held back.
    """
    with run.lock("submit"):
        if run.state(part) != State.HELD or not run.is_unpushed(part):
            return False
        run.record(State.CANCELLED, part, "stopped before it was pushed")
    return True


def stop(run: Run, part: int, backend: Backend, clock: Clock, lose_log: bool = False) -> None:
    """End a part where it runs; where that takes its log away, the log is fetched first.

    Raises UsageError when there is nothing that could be ended from here, and InfrastructureError, having
    ended nothing, when the log would be lost and `lose_log` does not allow it.
    """
    with run.lock("submit"):
        submission.refuse_another_account(run, part, backend)
        accepted = run.submission(part) or backend.find(submission.intent(run, part))
    if accepted is None:
        raise UsageError(f"run {run.id} was never accepted, so that nothing runs")
    now = submission.status(run, part, accepted, backend)
    if now.state.is_over:
        raise UsageError(
            f"run {run.id} is over already: {now.state}", f"what it measured: ferry pull {run.id}"
        )
    limits = backend.limits()
    if limits.by_hand:
        raise UsageError(f"run {run.id} was carried away by hand", "end it where it runs")
    if not limits.stop_deletes:
        backend.stop(accepted)
        return
    with run.lock("fetch"):
        if now.state is not State.QUEUED and not lose_log:
            _keep_log(run, part, accepted, backend, clock)
        backend.stop(accepted)
        submission.take_kept_log(run.part(part))
        run.record(State.CANCELLED, part, "deleted by ferry stop")
        run.record("fetched", part, "what had come of its log")


def _keep_log(run: Run, part: int, accepted: Submission, backend: Backend, clock: Clock) -> None:
    """Write down the log as far as it has come."""
    try:
        blocks = list(log_so_far(backend.follow_log(accepted), clock, BEGIN_S, KEEP_S))
        if not blocks:
            raise InfrastructureError(f"nothing came of it in {BEGIN_S:g} s")
    except InfrastructureError as problem:
        raise InfrastructureError(
            f"the log cannot be fetched, so that nothing was stopped: {problem.message}",
            "stop it all the same, and lose the log: --lose-log",
        ) from problem
    atomic_write(run.part(part) / submission.KEPT, b"".join(blocks))


def log_so_far(blocks: Iterable[bytes], clock: Clock, begin_s: float, most_s: float) -> Iterator[bytes]:
    """Yield what has come of a live log, which each connection sends from its start.

    That is all until it is silent: at its beginning for longer than `begin_s`, later at all. A program that
    is never silent is left after `most_s`, for what comes by then is new.
    """
    end = clock.monotonic() + begin_s
    begun = False
    for block in blocks:
        if block and not begun:
            begun, end = True, clock.monotonic() + most_s
        if block:
            yield block
        if (begun and not block) or clock.monotonic() >= end:
            return
        if not block:
            clock.sleep(IDLE_S)
