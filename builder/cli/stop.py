"""End a run where it runs; what it has measured stays."""

from __future__ import annotations

import sys

import click

from builder import crossing, runs, stopping
from builder.cli._output import say
from builder.clock import SystemClock
from builder.errors import Exit, UsageError, about
from builder.runs import Run


@click.command("stop")
@click.argument("run", required=False)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--lose-log", is_flag=True, help="Where stopping deletes the log: even if it cannot be fetched."
)
def command(run: str | None, yes: bool, lose_log: bool) -> Exit:
    """End a run where it runs; without RUN the last unfinished one.

    On Kaggle deleting the kernel is the only way to end it, which takes its log and outputs away there: the
    log is fetched first, and you are asked.

    \b
    Example:  ferry stop 20261130
    """
    found = runs.find(run)
    backend = crossing.backend_of(found)
    with about(found.id):
        if backend.limits().stop_deletes and not yes:
            _ask(found)
        stopping.stop(found, found.parts()[-1], backend, SystemClock(), lose_log)  # those before it are over
    say(f"asked {found.spec.backend} to stop run {found.id}. What was measured: ferry pull {found.id}")
    return Exit.OK


def _ask(run: Run) -> None:
    """Ask before anything is deleted. UsageError when nobody is there, or says no."""
    what = f"stopping run {run.id} deletes its kernel on {run.spec.backend}, with its log and outputs there"
    if not sys.stdin.isatty():
        raise UsageError(what, f"the log is fetched first; if you want that: ferry stop {run.id} --yes")
    say(f"{what}; the log is fetched first")
    if not click.confirm("stop it?", err=True):
        raise UsageError(f"run {run.id} goes on", f"ferry pull {run.id}")
