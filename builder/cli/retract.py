"""Take a number back, on the record."""

from __future__ import annotations

import click

from builder import retracting, runs
from builder.cli._naming import run_and_case
from builder.cli._voice import envelope, say
from builder.errors import Exit
from builder.retractions import FILE


@click.command("retract")
@click.argument("run", metavar="RUN[/CASE]")
@click.option("--because", required=True, metavar="TEXT", help="Why; it stands beside the rows from now on.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(run: str, because: str, as_json: bool) -> Exit:
    """Take a run's figures back, or those of one case; a published copy says so too.

    The rows stay listed with the reason and leave every total. Nothing is deleted, and nothing takes a
    retraction back: a better measurement is a new run.

    \b
    Example:  ferry retract 20261130-143908/s05 --because "another process was on the card"
    """
    name, case = run_and_case(run)
    found = runs.find(name)
    folders = retracting.retract(found, case, because)
    if as_json:
        content = {"case": case, "because": because}
        click.echo(envelope(content, run_id=found.id, files=[folder / FILE for folder in folders]))
    for folder in () if as_json else folders:
        say(f"retracted in {folder}")
    return Exit.OK
