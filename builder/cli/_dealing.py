"""Runs that are dealt over places, from the command line: begun, carried to their end, gone on with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import click

from builder import beginning, crossing, stopping
from builder.cli._output import envelope, say, show_outcome
from builder.clock import SystemClock
from builder.errors import Exit, FerryError, InterruptError, UsageError, about, worst
from builder.outputs import EVERYTHING, Wanted
from builder.runs import Run
from builder.spec import RunSpec
from builder.spreading import Spread


def run(spec: RunSpec, patience_s: float, rehearsal: bool, as_json: bool) -> Exit:
    """Begin a run, carry it to its end, and show its rows."""
    spread = _begin(spec, rehearsal)
    with beginning.alone(spread.run, say):
        code = _carry(spread, patience_s)
    outcome = crossing.parse(spread.run)
    return worst(code, show_outcome(outcome, spread.run.state(0), as_json))


def push(spec: RunSpec, rehearsal: bool, as_json: bool) -> Exit:
    """Begin a run and push as many parts as its places take at once."""
    spread = _begin(spec, rehearsal)
    with beginning.alone(spread.run, say):
        return _step(spread, as_json)


def pull(run: Run, patience_s: float, wanted: Wanted = EVERYTHING) -> Exit:
    """Carry a run on to its end, whoever began it."""
    with beginning.alone(run, say):
        return _carry(beginning.come_back(run, SystemClock(), say), patience_s, wanted)


def resume(run: Run, as_json: bool) -> Exit:
    """Deal the cases of a run that have no result once more. UsageError when none is to be dealt."""
    if run.is_open:
        raise UsageError(f"run {run.id} is not over: its cases are still dealt", f"ferry pull {run.id}")
    records = crossing.parse(run).records
    if all(record.status not in ("unknown", "not_run") for record in records.cases):
        raise UsageError(f"run {run.id} has a result of every case", f"see ferry pull {run.id}")
    run.record("resumed")
    with beginning.alone(run, say):
        return _step(beginning.come_back(run, SystemClock(), say), as_json)


def _begin(spec: RunSpec, rehearsal: bool) -> Spread:
    try:
        return beginning.begin(spec, SystemClock(), say, rehearsal)
    except KeyboardInterrupt:
        raise InterruptError("interrupted; no run was begun") from None


def _step(spread: Spread, as_json: bool) -> Exit:
    run = spread.run
    with about(run.id), _told_when_interrupted(run):
        spread.step()
        if spread.problems and not any(run.submission(part) for part in run.parts()):
            raise spread.problems[0]
    if as_json:
        click.echo(envelope(run_id=run.id, state=run.state(0) or "dealing"))
    else:
        say(f"run {run.id} is under way; what waits is dealt while you wait with: ferry pull {run.id}")
    return Exit.OK


def _carry(spread: Spread, patience_s: float, wanted: Wanted = EVERYTHING) -> Exit:
    with about(spread.run.id), _told_when_interrupted(spread.run):
        return spread.carry(patience_s, wanted)


@contextlib.contextmanager
def _told_when_interrupted(run: Run) -> Iterator[None]:
    """Ctrl-C stops what runs on this machine and leaves all else alone."""
    try:
        yield
    except KeyboardInterrupt:
        stopped = [part for part in run.coming() if run.part_spec(part).backend == "local"]
        for part in stopped:
            with contextlib.suppress(FerryError):
                stopping.stop(run, part, crossing.backend_of(run, part), SystemClock())
        said = f"detached from run {run.id}, which goes on"
        said += f"; its parts here, {', '.join(map(str, stopped))}, were stopped" if stopped else ""
        raise InterruptError(said, f"to come back, and to deal the rest: ferry pull {run.id}") from None
