"""Any log, from anywhere, to rows; offline."""

from __future__ import annotations

from pathlib import Path

import click

from builder import crossing, runs
from builder.cli._options import PATH
from builder.cli._output import show_outcome
from builder.errors import Exit, UsageError


@click.command("parse")
@click.argument("sources", nargs=-1, required=True, metavar="RUN|LOG...")
@click.option("-o", "--output", type=PATH, help="Where to write the CSV.  [default: a run's own results.csv]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(sources: tuple[str, ...], output: Path | None, as_json: bool) -> Exit:
    """Parse a run again from its raw logs, or any log in any form it is met in.

    \b
    Example:  ferry parse ~/Downloads/ferry-20261130.log -o results.csv
    """
    logs = [Path(source) for source in sources if Path(source).is_file()]
    if len(logs) == len(sources):
        return show_outcome(crossing.parse_logs(logs, output), "parsed", as_json)
    if len(sources) > 1:
        missing = next(source for source in sources if not Path(source).is_file())
        raise UsageError(f"there is no log at {missing}", "name log files, or one run")
    run = runs.find(sources[0])
    outcome = crossing.parse_logs(run.logs(), output, run) if output else crossing.parse(run)
    return show_outcome(outcome, "parsed", as_json)
