"""Go on with a run: its next part has the cases without a result, and the code that the run began with."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

from builder import announcing, crossing, parting, runs, submission
from builder.backends import Backend
from builder.bundle import make_bundle
from builder.clock import Clock
from builder.errors import FerryError, UsageError
from builder.runs import Run
from harness.events import FINAL_STATUSES
from harness.shapes import Case

Tell = Callable[[str], None]


def resume(run: Run, backend: Backend, clock: Clock, tell: Tell, timeout_s: float = 0.0) -> int:
    """Push what a run still lacks; return the number of the part that was pushed.

    A part that was held back, refused or given up unpushed is pushed as it is. Else what is over is fetched,
    and the cases without a result become the next part: its kernel carries the files of the first part's
    kernel, whatever has become of the model here since then. `timeout_s` is its own limit, 0 for the run's.

    Raises UsageError when a part is under way or nothing is missing.
    """
    for part in run.coming():
        if run.submission(part) is None:
            if not run.is_unpushed(part):
                raise UsageError(f"a push of run {run.id} was interrupted", f"ferry pull {run.id}")
            return _submit(run, part, backend, clock, tell)
    crossing.fetch(run, backend, clock)
    if under_way := [part for part in run.coming() if not run.told(part).is_over]:
        raise UsageError(
            f"part {under_way[0]} of run {run.id} is {run.told(under_way[0])}",
            f"wait for it: ferry pull {run.id}",
        )
    cases = _without_result(run)
    if not cases:
        raise UsageError(f"run {run.id} has a result of every case", f"see ferry pull {run.id}")
    part = _add_part(run, cases, tell, timeout_s or run.spec.timeout_s)
    return _submit(run, part, backend, clock, tell)


def latest() -> Run:
    """Return the run meant when none is named: the newest if it lacks a result, else an unfinished one.

    A pull finishes a run whose cases are missing all the same. Raises UsageError when there is neither.
    """
    newest = next((run for run in runs.all_runs() if run.parts() and not run.is_probe), None)
    if newest and newest.is_finished and _without_result(newest):
        return newest
    return runs.find(None)


def _submit(run: Run, part: int, backend: Backend, clock: Clock, tell: Tell) -> int:
    with submission.telling_of(run, part):
        for sentence in announcing.announce(run.part_spec(part), backend, clock):
            tell(sentence)
        submission.submit(run, part, backend, clock, tell)
    return part


def _without_result(run: Run) -> tuple[Case, ...]:
    records = crossing.parse(run).records
    return tuple(record.case for record in records.cases if record.status not in FINAL_STATUSES)


def _add_part(run: Run, cases: tuple[Case, ...], tell: Tell, timeout_s: float) -> int:
    """Build the next part's folder, whole or not at all."""
    with run.lock("submit"):
        part = run.parts()[-1] + 1
        bundle = parting.stored_bundle(run.part(run.parts()[0]))
        spec = replace(run.spec, cases=cases, timeout_s=timeout_s)
        with contextlib.suppress(FerryError, OSError):  # what the model was made from may be gone
            if make_bundle(spec).sha256 != bundle.sha256:
                tell(f"the code here has changed; part {part} runs the code that run {run.id} began with")
        parting.add(run, part, spec, bundle)
        run.record("resumed", detail=f"part {part}")
        tell(f"part {part}: {len(cases)} of {len(run.spec.cases)} cases have no result yet")
    return part
