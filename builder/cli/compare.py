"""Which cases became faster or slower between two runs, against the noise"""

from __future__ import annotations

from typing import Any

import click

from builder import reading, results
from builder.cli._estimated import show_estimate
from builder.cli._listing import grid
from builder.cli._options import SHARE
from builder.cli._output import envelope, say
from builder.compare import KINDS, Across, Compared, Pair, compare
from builder.errors import Exit, UsageError
from builder.reports import comparison


@click.command("compare")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B", default="")
@click.option(
    "--across", multiple=True, type=click.Choice([*KINDS]), help="Compare although they differ in this."
)
@click.option("--threshold", type=SHARE, default="0", help="The slow-down that is allowed, as 5%.")
@click.option("--estimate", is_flag=True, help="Hold one run against what the model of its card says.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print a table for a pull request.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    a: str,
    b: str,
    across: tuple[str, ...],
    threshold: float,
    estimate: bool,
    as_markdown: bool,
    as_json: bool,
) -> Exit:
    """Compare run B with run A, case by case: faster, slower, the same, or nobody can tell.

    A and B are runs (ids, beginnings of ids, folders) or logs. The verdict is on the candidate's
    milliseconds: a difference counts when it is beyond twice its 95 % interval, beyond both runs' noise,
    beyond twice what the unchanged baseline moved in the same direction, and beyond 5 %, which two processes
    alone may make. Exit 3: a case is slower by more than the threshold or no longer passes; 8: for some case
    nobody can tell. With --estimate A alone is held against the model of its card, which is no measurement.

    \b
    Example:  ferry compare 20261129 20261130 --threshold 5% --markdown
    """
    if estimate is bool(b):
        raise UsageError("name two runs, or one with --estimate", "ferry compare --estimate RUN")
    if estimate:
        return show_estimate(reading.read(a), as_json)
    compared = compare(reading.read(a), reading.read(b), across)
    code = compared.exit_code(threshold)
    if as_json:
        click.echo(
            envelope(_document(compared, threshold), exit_code=code, counts=comparison.counts(compared))
        )
    elif as_markdown:
        click.echo(comparison.markdown(compared, threshold), nl=False)
    else:
        for line in grid([comparison.HEAD, *map(comparison.cells, compared.pairs)], comparison.RIGHT):
            say(line)
        say(comparison.headline(compared))
        for sentence in comparison.sentences(compared, threshold):
            say(sentence)
    return code


def _document(compared: Compared, threshold: float) -> dict[str, Any]:
    return {
        "a": compared.a.name,
        "b": compared.b.name,
        "threshold": threshold,
        "geomean": _figures(compared.geomean),
        "pairs": [_pair(pair) for pair in compared.pairs],
        "only_a": [row.case_id for row in compared.only_a],
        "only_b": [row.case_id for row in compared.only_b],
        "notes": [*comparison.sentences(compared, threshold)],
    }


def _pair(pair: Pair) -> dict[str, Any]:
    names = ("case_id", "status", "device", "median_ms", "baseline_median_ms", "speedup")
    sides = {
        name: {column: results.cell(getattr(row, column)) for column in names}
        for name, row in (("a", pair.a.row), ("b", pair.b.row))
    }
    moved = dict(zip(("baseline_moved_ms", "candidate_moved_ms"), pair.moved_ms or (None, None), strict=True))
    found = pair.found
    return {
        **sides,
        **moved,
        "verdict": found.word if found else None,
        "refusal": pair.refusal,
        "reason": pair.reason,
        "ratio": _figures(found),
    }


def _figures(found: Across | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "ratio": found.ratio,
        "low": found.low,
        "high": found.high,
        "threshold": found.beyond,
        "word": found.word,
    }
