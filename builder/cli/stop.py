"""End a run where it runs; what it has measured stays."""

from __future__ import annotations

import contextlib
import sys

import click

from builder import crossing, runs, stopping
from builder.cli._output import envelope, say
from builder.clock import SystemClock
from builder.errors import Exit, UsageError, about
from builder.runs import Run


@click.command("stop")
@click.argument("run", required=False)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--lose-log", is_flag=True, help="Where stopping deletes the log: even if it cannot be fetched."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(run: str | None, yes: bool, lose_log: bool, as_json: bool) -> Exit:
    """End a run where it runs; without RUN the last unfinished one.

    On Kaggle deleting the kernel is the only way to end it, which takes its log and outputs away there: the
    log is fetched first, and you are asked.
    A run that is held here for a free session is just not pushed any more.

    \b
    Example:  ferry stop 20261130
    """
    found = runs.find(run)
    part = found.parts()[-1]  # those before it are over, unless the run is dealt
    if found.spec.is_dealt:
        said = _stop_dealt(found, yes, lose_log)
    elif stopping.give_up(found, part):
        said = f"run {found.id} is not pushed any more. To push it after all: ferry resume {found.id}"
    else:
        _stop(found, part, yes, lose_log)
        said = f"asked {found.spec.backend} to stop run {found.id}. What was measured: ferry pull {found.id}"
    if as_json:
        click.echo(envelope(run_id=found.id, state=found.told(part)))
    else:
        say(said)
    return Exit.OK


def _stop_dealt(run: Run, yes: bool, lose_log: bool) -> str:
    """End every part that is under way, and the dealing; return what to say of that."""
    if crossing.backend_of(run).limits().stop_deletes and not yes:
        _ask(run)
    run.record("stopped")
    asked = []
    for part in run.coming():
        with about(run.id), contextlib.suppress(UsageError):  # it is over already, or was never accepted
            if not stopping.give_up(run, part):
                stopping.stop(run, part, crossing.backend_of(run, part), SystemClock(), lose_log)
                asked.append(str(part))
    parts = f"parts {', '.join(asked)}" if asked else "none was under way"
    return f"stopped dealing run {run.id}; asked to stop: {parts}. What was measured: ferry pull {run.id}"


def _stop(run: Run, part: int, yes: bool, lose_log: bool) -> None:
    backend = crossing.backend_of(run)
    with about(run.id):
        if backend.limits().stop_deletes and not yes:
            _ask(run)
        stopping.stop(run, part, backend, SystemClock(), lose_log)


def _ask(run: Run) -> None:
    """Ask before anything is deleted. UsageError when nobody is there, or says no."""
    what = f"stopping run {run.id} deletes its kernel on {run.spec.backend}, with its log and outputs there"
    if not sys.stdin.isatty():
        raise UsageError(what, f"the log is fetched first; if you want that: ferry stop {run.id} --yes")
    say(f"{what}; the log is fetched first")
    if not click.confirm("stop it?", err=True):
        raise UsageError(f"run {run.id} goes on", f"ferry pull {run.id}")
