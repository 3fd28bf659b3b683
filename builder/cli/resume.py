"""Push only the cases of a run that have no result, as its next part."""

from __future__ import annotations

import click

from builder import crossing, resuming, runs
from builder.cli import _dealing
from builder.cli._options import DURATION
from builder.cli._output import say, show_pushed
from builder.clock import SystemClock
from builder.errors import Exit, about


@click.command("resume")
@click.argument("run", required=False)
@click.option("--timeout", type=DURATION, default="0", help="The part's own limit; 0 is the run's.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(run: str | None, timeout: float, as_json: bool) -> Exit:
    """Push only the cases of a run that have no result; its parts join under one run.

    Without RUN it is the newest run if that lacks a result, else the last unfinished one. The next part runs
    the code that the run began with. A part that was refused, or held back for a free
    session, is pushed as it is.

    \b
    Example:  ferry resume 20261130
    """
    found = runs.find(run) if run else resuming.latest()
    backend = crossing.backend_of(found)
    with about(found.id):
        if found.spec.is_dealt:
            return _dealing.resume(found, as_json)
        part = resuming.resume(found, backend, SystemClock(), say, timeout)
        return show_pushed(found, backend, as_json, part)
