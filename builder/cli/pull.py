"""Wait, fetch log and outputs, parse, and print the table."""

from __future__ import annotations

import click

from builder import crossing, runs
from builder.backends import Status
from builder.cli._following import follow
from builder.cli._options import WAIT
from builder.cli._output import envelope, say, show_outcome
from builder.clock import SystemClock
from builder.errors import Exit, about
from builder.outputs import Wanted
from builder.runs import Run

_MIB = 1 << 20


@click.command("pull")
@click.argument("run", required=False)
@WAIT
@click.option("--no-wait", is_flag=True, help="Return at once with what is there.")
@click.option("--include", multiple=True, metavar="PATTERN", help="Bring only outputs with such a name.")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Bring no output with such a name.")
@click.option(
    "--max-mib", type=click.IntRange(min=0), default=0, help="Bring no larger output; 0 brings all."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    run: str | None,
    patience_s: float,
    no_wait: bool,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    max_mib: int,
    as_json: bool,
) -> Exit:
    """Wait, fetch log and outputs, parse, and print the table; works from another shell, another day.

    RUN is a run's id or the beginning of one; without it the last unfinished run is pulled. The results
    always come; what else did not is listed, and a second pull brings it.

    \b
    Example:  ferry pull 20261130 --exclude '*.pt' --max-mib 100
    """
    found = runs.find(run)
    backend = crossing.backend_of(found)
    with about(found.id):
        if not no_wait and not backend.limits().by_hand:
            follow(found, backend, patience_s)
        status = crossing.fetch(found, backend, SystemClock(), Wanted(include, exclude, max_mib * _MIB))
        if found.logs() or status.state.is_over:
            return show_outcome(crossing.parse(found), found.state(0) or status.state, as_json)
    return _nothing_yet(found, status, as_json)


def _nothing_yet(run: Run, status: Status, as_json: bool) -> Exit:
    if as_json:
        click.echo(envelope(run_id=run.id, state=status.state, exit_code=Exit.INCOMPLETE))
    else:
        say(f"run {run.id} is {status.state}; nothing has come back yet")
        say(status.message or f"next: ferry pull {run.id}")
    return Exit.INCOMPLETE
