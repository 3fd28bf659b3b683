"""Where a run stands."""

from __future__ import annotations

import click

from builder import crossing, runs, submission
from builder.backends import Status
from builder.cli._output import envelope, say
from builder.errors import Exit
from builder.runs import Run


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
            now = submission.status(found, part, accepted, backend)
            messages.append(_of_part(found, part, now) if found.spec.is_dealt else now.message)
    journal = found.journal()
    if as_json:
        entries = [vars(entry) for entry in journal]
        state = found.state(found.parts()[-1]) if found.parts() else found.state(0)
        click.echo(envelope({"journal": entries}, run_id=found.id, state=state))
        return Exit.OK
    say(f"run {found.id} on {found.spec.backend}, {len(found.spec.cases)} cases of suite {found.spec.suite}")
    for entry in journal:
        whose = f"part {entry.part}" if entry.part else "run"
        say(f"{entry.at}  {whose}  {entry.state}  {entry.detail}".rstrip())
    if found.is_open:
        messages.append(f"what waits is dealt while somebody pulls: ferry pull {found.id}")
    for message in filter(None, messages):
        say(message)
    return Exit.OK


def _of_part(run: Run, part: int, now: Status) -> str:
    spec = run.part_spec(part)
    return f"part {part} on {spec.backend}, {len(spec.cases)} cases, is {now.state} {now.message}".rstrip()
