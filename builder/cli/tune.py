"""Derive the router's table from committed runs: which route is the fastest where."""

from __future__ import annotations

from pathlib import Path

import click

from builder import runs, tuning
from builder.cli._options import PATH
from builder.cli._voice import say
from builder.disk import PUBLISHED, atomic_write
from builder.errors import Exit, UsageError


@click.command("tune")
@click.option("--runs", "folder", type=PATH, help="A folder of runs; by default those kept as evidence.")
@click.option(
    "-o", "--output", type=PATH, default=tuning.TABLE, help="The table; by default the model's own."
)
@click.option("--check", is_flag=True, help="Write nothing; exit 3 when the table is not what the runs say.")
def command(folder: Path | None, output: Path, check: bool) -> Exit:
    """Derive the table by which `safe`, `fast` and `fp16` choose routes, from the raw logs of committed runs.

    An entry names what was fastest at a shape on a device, its time, the next best, and the run. Shapes that
    nobody measured take the nearest entry of their device, else a rule. The kernel carries the table.

    \b
    Example:  ferry tune --check
    """
    folder = folder or runs.runs_root() / PUBLISHED
    if not any(folder.glob("*/spec.json")):
        raise UsageError(f"there is no run in {folder}", "`ferry publish RUN` keeps one as evidence")
    entries = tuning.derive(tuning.published(folder))
    made = tuning.text(entries)
    same = output.is_file() and output.read_text(encoding="utf-8") == made
    if check:
        say(f"{output}: {'as the runs say' if same else 'not what the runs say; `ferry tune` writes it'}")
        return Exit.OK if same else Exit.CASE_FAILED
    if not same:
        atomic_write(output, made)
    say(f"{output}: {len(entries)} entries, {'nothing to write' if same else 'written'}")
    return Exit.OK
