"""One HTML page of one run or several, that opens from disk and needs no network"""

from __future__ import annotations

from pathlib import Path

import click

from builder import reading, runs
from builder.cli._options import PATH
from builder.cli._output import envelope, say
from builder.errors import Exit, UsageError
from builder.runs import atomic_write


@click.command("report")
@click.argument("words", nargs=-1, metavar="[RUN]...")
@click.option("-o", "--output", type=PATH, default="ferry-report.html", show_default=True, help="The page.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(words: tuple[str, ...], output: Path, as_json: bool) -> Exit:
    """Write one HTML page of runs: verdict, charts, every row, and how they came about.

    A RUN is a run (its id, the beginning of one, its folder), a log, or a folder of runs; without one it is
    the newest run that has a log. Unlike rows are never blended into one average.

    \b
    Example:  ferry report 20261130 -o report.html
    """
    from builder.reports.bundle_js import vega
    from builder.reports.html import report

    found, problems = reading.read_all(words or [_newest()])
    if not found:
        raise UsageError(f"no run could be read: {problems[0]}", "`ferry ls` lists the runs")
    atomic_write(output, report(found, problems, vega()))
    for problem in problems:
        say(f"note: {problem}")
    if as_json:
        counts = {"runs": len(found), "cases": sum(len(one.rows) for one in found)}
        click.echo(envelope({"problems": problems}, files=[output], counts=counts))
    else:
        say(str(output))
    return Exit.OK


def _newest() -> str:
    for run in runs.all_runs():
        if run.logs() and not run.is_probe:
            return str(run.folder)
    raise UsageError(f"no run in {runs.runs_root()} has a log", "name a run or a log")
