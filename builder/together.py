"""Submit several parts of a run in one go, where their place takes that: a job array, for example."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from builder import submission
from builder.backends import Backend, State, Submission, TakesMany
from builder.clock import Clock
from builder.errors import (
    CapacityError,
    FerryError,
    InfrastructureError,
    RefusedHereError,
    RefusedThereError,
)
from builder.runs import Run


def submit(
    run: Run,
    parts: Sequence[int],
    backend: Backend,
    clock: Clock,
    tell: Callable[[str], None] = submission.quietly,
) -> list[Submission]:
    """Submit parts that want the same hardware, each once, as `submission.submit` does one after another.

    Raises what that raises; after an answer that was lost each part is looked for.
    """
    submit_fresh(run, parts, backend, tell)
    return [submission.submit(run, part, backend, clock, tell) for part in parts]


def submit_fresh(
    run: Run, parts: Sequence[int], backend: Backend, tell: Callable[[str], None] = submission.quietly
) -> None:
    """Submit those parts in one go that were never submitted, where their place takes that."""
    fresh = [part for part in parts if not run.state(part)]
    if isinstance(backend, TakesMany) and len(fresh) > 1:
        with run.lock("submit"):
            for part in fresh:
                run.record(State.INTENT, part, backend.account())
            try:
                accepted = backend.submit_all([submission.intent(run, part) for part in fresh])
                for part, one in zip(fresh, accepted, strict=True):
                    _note(run, part, one)
            except (RefusedHereError, RefusedThereError, CapacityError) as refusal:
                _settle(run, fresh, backend, refusal)
                raise
            except InfrastructureError as lost:
                tell(f"the push had no answer ({lost.message}); looking what was accepted")


def _settle(run: Run, parts: Sequence[int], backend: Backend, refusal: FerryError) -> None:
    """Write down what a place that said no has taken all the same: some of several arrays."""
    for part in parts:
        if found := backend.find(submission.intent(run, part)):
            _note(run, part, found)
        else:
            run.record(State.REFUSED, part, refusal.message)


def _note(run: Run, part: int, accepted: Submission) -> None:
    run.write_submission(part, accepted)
    run.record(State.QUEUED, part, accepted.reference)
