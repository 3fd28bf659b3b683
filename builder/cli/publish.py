"""Make a run into a folder or ZIP that somebody else can audit."""

from __future__ import annotations

from pathlib import Path

import click

from builder import publishing, reading, runs
from builder.cli._options import PATH
from builder.cli._voice import envelope, say
from builder.errors import Exit
from builder.runs import Run


@click.command("publish")
@click.argument("run")
@click.option("-o", "--output", type=PATH, help="A folder or a .zip.  [default: runs/published]")
@click.option("--report", is_flag=True, help="Lay the HTML page of `ferry report` beside it; some MB.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(run: str, output: Path | None, report: bool, as_json: bool) -> Exit:
    """Make a run into evidence: raw log, samples, sources, environment, and a manifest of SHA-256s.

    Whoever gets it needs one command: ferry verify. A run on a simulated device is refused; one that is not
    whole says so.

    \b
    Example:  ferry publish 20261130 -o evidence.zip
    """
    found = runs.find(run)
    published = publishing.publish(found, output, _page(found) if report else "")
    if as_json:
        content = {"notes": published.notes, "count": published.files}
        click.echo(envelope(content, run_id=found.id, state=found.state(0), files=[published.place]))
        return Exit.OK
    for note in published.notes:
        say(f"note: {note}")
    say(f"{published.files} files in {published.place}; to check it: ferry verify {published.place}")
    return Exit.OK


def _page(run: Run) -> str:
    from builder.reports.bundle_js import vega
    from builder.reports.html import report

    return report([reading.of_run(run)], (), vega())
