"""End a run where it runs; what it has measured stays."""

from __future__ import annotations

import click

from builder import crossing, runs, submission
from builder.cli._output import say
from builder.errors import Exit


@click.command("stop")
@click.argument("run", required=False)
def command(run: str | None) -> Exit:
    """End a run where it runs; without RUN the last unfinished one.

    \b
    Example:  ferry stop 20261130
    """
    found = runs.find(run)
    backend = crossing.backend_of(found)
    for part in found.parts():
        submission.stop(found, part, backend)
    say(f"asked {found.spec.backend} to stop run {found.id}. What was measured: ferry pull {found.id}")
    return Exit.OK
