"""Finish a run whose kernel somebody carried to a machine by hand."""

from __future__ import annotations

from pathlib import Path

import click

from builder import crossing, runs
from builder.cli._output import show_outcome
from builder.errors import Exit

EXISTING = click.Path(exists=True, path_type=Path)


@click.command("import")
@click.argument("run")
@click.argument("log", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("outputs", nargs=-1, type=EXISTING)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(run: str, log: Path, outputs: tuple[Path, ...], as_json: bool) -> Exit:
    """Finish a run of backend `manual` with the log and the outputs that came back.

    \b
    Example:  ferry import 20261130-101500 ferry.log ferry-events.jsonl
    """
    found = runs.find(run)
    return show_outcome(crossing.import_log(found, log, outputs), found.state(0), as_json)
