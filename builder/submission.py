"""Submit, wait, follow, fetch: all polling policy, through a Backend and a Clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from builder.backends import Backend, Intent, State, Status, Submission
from builder.clock import Clock
from builder.errors import CapacityError, RefusedHereError, RefusedThereError, UsageError, WaitExpiredError
from builder.runs import Run, slug

POLL_S = 1.0
IDLE_S = 0.1  # between looks at a log that has nothing new


def intent(run: Run, part: int) -> Intent:
    """Return what part `part` of a run submits: derived from the spec, so it survives a kill."""
    spec = run.spec
    name = slug(run.id, part)
    return Intent(run.id, part, name, run.part(part), spec.accelerator, spec.form, spec.timeout_s)


def submit(run: Run, part: int, backend: Backend) -> Submission:
    """Submit a part once, however often this is called and wherever an earlier call was killed.

    Raises what the backend raises; a refusal is in the journal then.
    """
    with run.lock("submit"):
        accepted = run.submission(part)
        if accepted is None:
            accepted = _submit_or_find(run, intent(run, part), backend)
            run.write_submission(part, accepted)
            run.record(State.QUEUED, part, accepted.reference)
    return accepted


def _submit_or_find(run: Run, intended: Intent, backend: Backend) -> Submission:
    interrupted = run.state(intended.part) == State.INTENT
    run.record(State.INTENT, intended.part)
    if interrupted and (found := backend.find(intended)):
        return found
    try:
        return backend.submit(intended)
    except (RefusedHereError, RefusedThereError, CapacityError) as refusal:
        run.record(State.REFUSED, intended.part, refusal.message)
        raise  # after any other error it may have been accepted: the intent stands, and is looked for


def status(run: Run, part: int, submission: Submission, backend: Backend) -> Status:
    """Ask for a part's state, and write it down when it has changed."""
    [now] = backend.status([submission])
    if not run.has_come(part) and now.state != run.state(part):
        run.record(now.state, part, now.message)
    return now


def follow(submission: Submission, backend: Backend, clock: Clock) -> Iterator[bytes]:
    """Yield the log as it grows until it is whole; an empty block says that nothing was new."""
    for block in backend.follow_log(submission):
        yield block
        if not block:
            clock.sleep(IDLE_S)


def wait(
    run: Run, part: int, backend: Backend, clock: Clock, patience_s: float, tell: Callable[[Status], None]
) -> Status:
    """Poll until the part is over and tell each change. WaitExpiredError after `patience_s` (0: no limit)."""
    submission = submit(run, part, backend)
    end = clock.monotonic() + patience_s
    told = None
    while not (now := status(run, part, submission, backend)).state.is_over:
        if now != told:
            tell(now)
        told = now
        left = end - clock.monotonic() if patience_s else POLL_S
        if left <= 0:
            raise WaitExpiredError(
                f"run {run.id} is still {now.state} after {patience_s:g} s",
                f"it goes on: `ferry pull {run.id}`",
            )
        clock.sleep(min(POLL_S, left))
    return now


def stop(run: Run, part: int, backend: Backend) -> None:
    """End a part where it runs. UsageError when there is nothing that could be ended from here."""
    with run.lock("submit"):
        accepted = run.submission(part) or backend.find(intent(run, part))
    if accepted is None:
        raise UsageError(f"run {run.id} was never accepted, so that nothing runs")
    now = status(run, part, accepted, backend)
    if now.state.is_over:
        raise UsageError(
            f"run {run.id} is over already: {now.state}", f"what it measured: ferry pull {run.id}"
        )
    if backend.limits().by_hand:
        raise UsageError(f"run {run.id} was carried away by hand", "end it where it runs")
    backend.stop(accepted)


def fetch(run: Run, part: int, submission: Submission, backend: Backend) -> None:
    """Bring log and outputs of a part that is over; what is here already is not fetched again."""
    with run.lock("fetch"):
        folder = run.part(part)
        if not (folder / "log.raw").exists():
            backend.fetch_log(submission, folder / "log.raw")
        if not (folder / "outputs").exists():
            backend.fetch_outputs(submission, folder / "outputs")
        if not run.has_come(part):
            run.record("fetched", part)
