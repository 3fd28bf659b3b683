"""Where a run stands."""

from __future__ import annotations

import click

from builder import crossing, runs, submission
from builder.cli._output import envelope, say
from builder.errors import Exit


@click.command("status")
@click.argument("run", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(run: str | None, as_json: bool) -> Exit:
    """Say where a run stands; without RUN the last unfinished one.

    \b
    Example:  ferry status 20261130
    """
    found = runs.find(run)
    backend = crossing.backend_of(found)
    messages = []
    for part in found.coming():
        accepted = found.submission(part)
        if accepted:
            messages.append(submission.status(found, part, accepted, backend).message)
    journal = found.journal()
    if as_json:
        entries = [vars(entry) for entry in journal]
        click.echo(envelope({"journal": entries}, run_id=found.id, state=found.state(found.parts()[-1])))
        return Exit.OK
    say(f"run {found.id} on {found.spec.backend}, {len(found.spec.cases)} cases of suite {found.spec.suite}")
    for entry in journal:
        whose = f"part {entry.part}" if entry.part else "run"
        say(f"{entry.at}  {whose}  {entry.state}  {entry.detail}".rstrip())
    for message in filter(None, messages):
        say(message)
    return Exit.OK
