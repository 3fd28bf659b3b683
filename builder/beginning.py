"""Begin a run that is dealt over places, or come back to one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from builder import crossing, history, knowing, parting, places, planning, runs, takenover
from builder.bundle import make_bundle
from builder.clock import Clock
from builder.expecting import costs_of
from builder.rehearsal import rehearse
from builder.runs import Run
from builder.spec import RunSpec
from builder.spreading import Spread, Tell


def begin(spec: RunSpec, clock: Clock, tell: Tell, rehearsal: bool = False) -> Spread:
    """Plan a run, say what it will come to, and put it on disk with its first part; nothing is sent yet.

    Raises RefusedHereError when nothing of it fits or can run, and what its places raise about accounts.
    """
    commit, dirty = crossing.git_state()
    spec = replace(
        spec, run_id=runs.new_run_id(), created_at=runs.now_text(), git_commit=commit, git_dirty=dirty
    )
    bundle = make_bundle(spec)
    past = history.gather({case.shape.key for case in spec.cases})
    plan = planning.make(knowing.recall(spec, bundle, past, clock), clock, past)
    for sentence in planning.summary(plan):
        tell(sentence)
    plan.refuse_nothing()
    with runs.create(plan.spec) as draft:
        takenover.take_over(plan.spec.known, draft.folder)
        for first in plan.foreseen.parts[:1]:
            cases = [case for case in spec.cases if case.id in first.cases]
            limits = plan.places[first.place].backend.limits()
            own = parting.part_spec(plan.spec, first.place, cases, limits)
            parting.write(draft.part(crossing.FIRST_PART), crossing.FIRST_PART, own, bundle)
            if rehearsal:
                tell(rehearse(draft.part(crossing.FIRST_PART) / "kernel.py").detail)
    run = Run(runs.runs_root() / spec.run_id)
    return Spread(run, plan.places, plan.costs, clock, tell, parting.Parts(run, bundle))


def come_back(run: Run, clock: Clock, tell: Tell) -> Spread:
    """Take up a run where it stands on disk. Raises what its places raise about accounts."""
    spec = run.spec
    return Spread(run, places.look_at(spec, clock), costs_of(planning.expect(spec)), clock, tell)


@contextlib.contextmanager
def alone(run: Run, tell: Tell) -> Iterator[None]:
    """Be the only process that deals a run; wait for another that does, and say so."""
    from filelock import FileLock, Timeout

    lock = FileLock(run.folder / ".deal.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        tell(f"another ferry deals run {run.id}; this one waits for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
