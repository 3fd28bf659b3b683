"""What is known of a run, or how one case's figures came about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from builder import figures, marks, quoting, results, runs, showing, tables
from builder import why as reasons
from builder.cli._naming import run_and_case
from builder.cli._voice import envelope, say
from builder.errors import Exit, UsageError
from builder.results import Row


@click.command("show")
@click.argument("run", metavar="RUN[/CASE]|DOC:LINE")
@click.option("--why", is_flag=True, help="With a case: the way from its raw samples to its verdict.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(run: str, why: bool, as_json: bool) -> Exit:
    """Show where a run stands, what it cost, where it comes from, its files, and how to repeat it.

    RUN/CASE shows a case's raw samples with their places in the log, and what became of them on the way to
    its figures. DOC:LINE does so for the marked figures on a line of a Markdown document, or for
    a line of a run's table in it.

    \b
    Example:  ferry show 20261130-143908/s08 --why
    """
    if (place := re.fullmatch(r"(.+):(\d+)", run)) and Path(place[1]).is_file():
        return _show_figures(Path(place[1]), int(place[2]), as_json)
    name, case = run_and_case(run)
    if why and not case:
        raise UsageError("--why is asked of one case", f"for example: ferry show {name}/s01 --why")
    return _show_case(name, case, as_json) if case else _show_run(name, as_json)


def _show_run(name: str, as_json: bool) -> Exit:
    found = runs.find(name)
    shown = showing.show(found)
    if as_json:
        content = {"facts": shown.facts, "commands": shown.commands, "notes": shown.notes}
        click.echo(envelope(content, run_id=found.id, state=found.state(0), files=list(shown.files)))
    else:
        say("\n".join(shown.lines()))
    return Exit.OK


def _show_case(name: str, case: str, as_json: bool) -> Exit:
    found = runs.find(name)
    reason = reasons.why(found, case)
    if not as_json:
        say("\n".join(reason.lines()))
        return Exit.OK
    content = {
        "row": {column: results.cell(getattr(reason.row, column)) for column in results.COLUMNS},
        "samples": [{**asdict(taken), "log": str(taken.log)} for taken in reason.taken],
        "steps": reason.steps,
        "circumstances": reason.circumstances,
        "command": reason.command,
        "retracted": reason.retracted,
    }
    click.echo(envelope(content, run_id=found.id))
    return Exit.OK


def _show_figures(path: Path, line: int, as_json: bool) -> Exit:
    """Show which rows the figures on a line come from; of a single row, the way from its raw samples."""
    told = []
    for figure, marker, rows, cells in _figures(path, line):
        told.append({"figure": figure, "marker": marker, "rows": [row.case_id for row in rows]})
        if not as_json:
            say("\n".join([f"{figure} = {marker}", *cells, *_way(rows)]))
    if as_json:
        click.echo(envelope({"figures": told}, files=[path]))
    return Exit.OK


def _figures(path: Path, line: int) -> Iterator[tuple[str, str, Sequence[Row], list[str]]]:
    """Yield each figure on a line with its marker, its rows and what it is made of; or a table's line."""
    text = path.read_text(encoding="utf-8")
    if rows := tables.rows_on(text, line):
        cells = [_cell(row, "speedup") for row in rows] if len(rows) > 1 else []
        yield text.split("\n")[line - 1], f"run {rows[0].run_id}", rows, cells
        return
    for quote in quoting.on_line(path, line):
        mark = marks.parse(quote.mark or "")
        cells = [cell for operand in mark.operands for cell in _cells(operand)] if mark else []
        yield quote.text, quote.mark or "", figures.all_rows(mark) if mark else (), cells


def _way(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the way from raw samples to a single row; of several, the command that shows that of one."""
    if len(rows) == 1:
        yield from reasons.why(runs.find(rows[0].run_id), rows[0].case_id).lines()
    elif rows:
        yield f"  each from its raw samples on, as: ferry show {rows[0].run_id}/{rows[0].case_id} --why"


def _cells(operand: marks.Operand) -> Iterator[str]:
    """Yield what a figure is made of: each row's cell, a file's value, or a plain number."""
    if operand.source is None or operand.source.is_file:
        yield f"  {operand.text}"
        return
    column = operand.term.column
    for row in figures.rows_of(operand.source):
        yield _cell(row, column)


def _cell(row: Row, column: str) -> str:
    return f"  {row.run_id}/{row.case_id}: {column} {results.cell(getattr(row, column))}"
