"""Submit and fetch: the policy around a Backend's answers, with a Clock.

Waiting is `builder.waiting`, stopping `builder.stopping`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from builder import outputs, retry
from builder.backends import Backend, Intent, State, Status, Submission
from builder.clock import Clock
from builder.errors import (
    CapacityError,
    DeniedError,
    IncompleteError,
    InfrastructureError,
    InterruptError,
    NoSlotError,
    RefusedHereError,
    RefusedThereError,
    UsageError,
)
from builder.outputs import Brought, Wanted
from builder.runs import Run, slug

PUSHES = 3  # of one part, when a place gives no answer and, asked about it, has nothing
LOOK_S = 15.0  # between two looks for a push without an answer
SLOT_S = 60.0  # between two looks for a free slot
KEPT = "log.kept"  # as far as a log had come when its run was stopped
EMPTY_PAUSES_S = (0.0, 5.0, 10.0)  # an empty log may only be late


def intent(run: Run, part: int) -> Intent:
    """Return what part `part` of a run submits: derived from the spec, so it survives a kill."""
    spec = run.part_spec(part)
    name = slug(run.id, part)
    folder = run.part(part)
    return Intent(
        run.id,
        part,
        name,
        folder,
        spec.accelerator,
        spec.form,
        spec.timeout_s,
        spec.internet,
        spec.devices,
    )


def quietly(_: str) -> None:
    """Tell nobody."""


def submit(
    run: Run,
    part: int,
    backend: Backend,
    clock: Clock,
    tell: Callable[[str], None] = quietly,
    unless_stopped: bool = False,
) -> Submission:
    """Submit a part once, however often this is called and wherever an earlier call was killed.

    Raises what the backend raises; a refusal is in the journal then. RefusedHereError, `unless_stopped`, for
    a part that somebody has given up meanwhile.
    """
    with run.lock("submit"):
        accepted = run.submission(part)
        if unless_stopped and accepted is None and run.state(part) == State.CANCELLED:
            raise RefusedHereError(
                f"run {run.id} was stopped before it was pushed",
                f"to push it after all: ferry resume {run.id}",
            )
        if accepted is None:
            accepted = _submit_or_find(run, intent(run, part), backend, clock, tell)
            run.write_submission(part, accepted)
            run.record(State.QUEUED, part, accepted.reference)
    return accepted


@contextlib.contextmanager
def telling_of(run: Run, part: int) -> Iterator[None]:
    """Let Ctrl-C in the middle of a push say what has become of the part: raises InterruptError."""
    try:
        yield
    except KeyboardInterrupt:
        raise _interrupted(run, part) from None


def _interrupted(run: Run, part: int) -> InterruptError:
    if run.state(part) == State.HELD:
        return InterruptError(
            f"run {run.id} was not pushed: no session was free", f"to push it: ferry resume {run.id}"
        )
    if not run.state(part):
        return InterruptError(
            f"run {run.id} was not pushed", f"to push it after all, and wait: ferry pull {run.id}"
        )
    return InterruptError(
        f"the push of run {run.id} was interrupted", f"to see whether it was accepted: ferry pull {run.id}"
    )


def accepted(run: Run, part: int, backend: Backend, clock: Clock) -> Submission:
    """Return what a part was accepted as; a push that was interrupted is completed.

    Raises UsageError for a part that was refused or is held back: only `ferry resume` pushes those.
    """
    if run.is_unpushed(part):
        why = next((entry.detail for entry in reversed(run.journal(part))), "")
        raise UsageError(
            f"part {part} of run {run.id} was not pushed, it is {run.state(part)}: {why}",
            f"ferry resume {run.id}",
        )
    return submit(run, part, backend, clock)


def submit_when_free(
    run: Run, part: int, backend: Backend, clock: Clock, tell: Callable[[str], None]
) -> Submission:
    """Submit a part once one of the account's sessions is free; until then it is held here, unpushed."""
    most = backend.limits().sessions if run.spec.accelerator not in ("", "cpu") else 0
    while True:
        busy = retry.read(backend.active, clock)
        if not most or len(busy) < most:
            try:
                return submit(run, part, backend, clock, tell, unless_stopped=True)
            except NoSlotError as full:
                busy = busy or [full.message]
        if run.state(part) not in (State.HELD, State.CANCELLED):
            run.record(State.HELD, part, f"waits for a free session; taken by {', '.join(busy)}")
            tell(
                f"run {run.id} waits here for a free session; taken by {', '.join(busy)}. "
                f"Ctrl-C leaves it unpushed; later: ferry resume {run.id}"
            )
        clock.sleep(SLOT_S)


def _submit_or_find(
    run: Run, intended: Intent, backend: Backend, clock: Clock, tell: Callable[[str], None]
) -> Submission:
    interrupted = run.state(intended.part) == State.INTENT
    if not interrupted:
        run.record(State.INTENT, intended.part, backend.account())
    refuse_another_account(run, intended.part, backend)
    pushed_s = age_s(run, intended.part, clock, State.INTENT)
    if interrupted and (found := _look_for(intended, backend, clock, pushed_s)):
        return found
    for pushes in range(1, PUSHES + 1):
        try:
            return backend.submit(intended)
        except (RefusedHereError, RefusedThereError, CapacityError) as refusal:
            run.record(State.REFUSED, intended.part, refusal.message)
            raise
        except DeniedError:
            raise
        except InfrastructureError as lost:  # it may have been accepted: the intent stands, and is looked for
            tell(f"the push had no answer ({lost.message}); looking whether it was accepted")
            if found := _look_for(intended, backend, clock):
                return found
            if pushes == PUSHES:
                raise
            clock.sleep(retry.pause_s(lost, pushes))
    raise AssertionError("a push returns or raises")


def refuse_another_account(run: Run, part: int, backend: Backend) -> None:
    """Refuse to look among one account's kernels for what another was meant to get. Raises UsageError."""
    meant = next((entry.detail for entry in reversed(run.journal(part))), "")
    if run.state(part) == State.INTENT and meant and meant != (here := backend.account()):
        raise UsageError(
            f"part {part} of run {run.id} was pushed as {meant}, and the credential here is of {here}",
            f"use the credential of {meant}; `ferry doctor` shows which one is found",
        )


def _look_for(intended: Intent, backend: Backend, clock: Clock, age_s: float = 0.0) -> Submission | None:
    """Look whether a push was accepted, until its place must know of it: never two sessions for one push.

    `age_s` is how old it is by the wall clock, which may jump: what was pushed just now has none.
    """
    end = clock.monotonic() + backend.limits().grace_s - age_s
    while True:
        found = retry.read(lambda: backend.find(intended), clock)
        left = end - clock.monotonic()
        if found or left <= 0:
            return found
        clock.sleep(min(LOOK_S, left))


def age_s(run: Run, part: int, clock: Clock, state: State = State.QUEUED) -> float:
    """Return how long ago a part was accepted, or came into a state, in seconds.

    0 where the clock was put back since.
    """
    times = [entry.at for entry in run.journal(part) if entry.state == state]
    since = datetime.fromisoformat(times[-1]).timestamp() if times else clock.now()
    return max(0.0, clock.now() - since)


def status(run: Run, part: int, submission: Submission, backend: Backend) -> Status:
    """Ask for a part's state, and write it down when it has changed."""
    now = ask(run, part, submission, backend)
    note(run, part, now)
    return now


def ask(run: Run, part: int, submission: Submission, backend: Backend) -> Status:
    """Ask for a part's state; what `stop` was killed over and is gone there is cancelled."""
    try:
        [now] = backend.status([submission])
    except DeniedError:
        if not (run.part(part) / KEPT).exists():
            raise
        return Status(State.CANCELLED, "deleted by ferry stop")
    return now


def note(run: Run, part: int, now: Status) -> None:
    """Write a part's state down when it has changed."""
    if not run.has_come(part) and now.state != run.state(part):
        run.record(now.state, part, now.message)


def take_kept_log(part: Path) -> None:
    """What came before the end is the log, now that no other will come."""
    if (part / KEPT).exists():
        (part / KEPT).replace(part / "log.raw")


# --- fetching ---------------------------------------------------------------------------------------------


def fetch(
    run: Run, part: int, submission: Submission, backend: Backend, clock: Clock, wanted: Wanted
) -> Brought:
    """Bring log and outputs of a part that is over; what is here already is not fetched again.

    Either suffices for the rows, so that the one is brought whatever became of the other; what is missing is
    in what this returns.
    """
    with run.lock("fetch"):
        folder = run.part(part)
        if run.state(part) == State.CANCELLED and (folder / KEPT).exists():
            take_kept_log(folder)
            run.record("fetched", part, "what had come of its log")
            return Brought()
        problem = _fetch_log(submission, folder / "log.raw", backend, clock)
        brought = outputs.bring(submission, folder, backend, wanted, clock)
        suffices = bool(list((folder / "outputs").glob(outputs.RESULTS)))
        if not (_has_bytes(folder / "log.raw") or suffices):
            problem = problem or "it is empty: the run was over before its first line"
        if problem:
            brought.missing["the log"] = problem
        outputs.write_report(folder, brought)
        if brought.missing:
            run.record("incomplete", part, f"missing: {brought.missing_names()}")
        elif not run.has_come(part):
            run.record("fetched", part)
    return brought


def _fetch_log(submission: Submission, target: Path, backend: Backend, clock: Clock) -> str:
    """Bring the log unless it is here; return why it could not be had. An empty one may only be late."""
    for pause_s in EMPTY_PAUSES_S:
        if _has_bytes(target):
            return ""
        clock.sleep(pause_s)
        try:
            retry.read(lambda: backend.fetch_log(submission, target), clock)
        except IncompleteError:
            continue
        except InfrastructureError as error:
            return error.message
    return ""


def _has_bytes(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0
