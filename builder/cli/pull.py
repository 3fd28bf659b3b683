"""Wait, fetch log and outputs, parse, and print the table."""

from __future__ import annotations

import click

from builder import crossing, runs
from builder.cli._following import follow
from builder.cli._options import WAIT
from builder.cli._output import envelope, say, show_outcome
from builder.clock import SystemClock
from builder.errors import Exit, about


@click.command("pull")
@click.argument("run", required=False)
@WAIT
@click.option("--no-wait", is_flag=True, help="Return at once with what is there.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(run: str | None, patience_s: float, no_wait: bool, as_json: bool) -> Exit:
    """Wait, fetch log and outputs, parse, and print the table; works from another shell, another day.

    RUN is a run's id or the beginning of one; without it the last unfinished run is pulled.

    \b
    Example:  ferry pull 20261130
    """
    found = runs.find(run)
    backend = crossing.backend_of(found)
    with about(found.id):
        if not no_wait and not backend.limits().by_hand:
            follow(found, backend, patience_s)
        status, _ = crossing.fetch(found, backend, SystemClock())
        if found.logs() or not found.coming():
            return show_outcome(crossing.parse(found), found.state(0), as_json)
    if as_json:
        click.echo(envelope(run_id=found.id, state=status.state, exit_code=Exit.INCOMPLETE))
    else:
        say(f"run {found.id} is {status.state}; nothing has come back yet")
        say(status.message or f"next: ferry pull {found.id}")
    return Exit.INCOMPLETE
