"""Make a run into a folder or ZIP that somebody else can audit."""

from __future__ import annotations

from pathlib import Path

import click

from builder import publishing, runs
from builder.cli._options import PATH
from builder.cli._voice import envelope, say
from builder.errors import Exit


@click.command("publish")
@click.argument("run")
@click.option("-o", "--output", type=PATH, help="A folder or a .zip.  [default: runs/published]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(run: str, output: Path | None, as_json: bool) -> Exit:
    """Make a run into evidence: raw log, samples, sources, environment, and a manifest of SHA-256s.

    Whoever gets it needs one command: ferry verify. A run on a simulated device is refused; one that is not
    whole says so.

    \b
    Example:  ferry publish 20261130 -o evidence.zip
    """
    found = runs.find(run)
    published = publishing.publish(found, output)
    if as_json:
        content = {"notes": published.notes, "count": published.files}
        click.echo(envelope(content, run_id=found.id, state=found.state(0), files=[published.place]))
        return Exit.OK
    for note in published.notes:
        say(f"note: {note}")
    say(f"{published.files} files in {published.place}; to check it: ferry verify {published.place}")
    return Exit.OK
