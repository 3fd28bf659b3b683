"""A run's results as a table in a document, between `<!-- begin: run RUN -->` and `<!-- end -->`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from builder import figures, runs
from builder.disk import PUBLISHED
from builder.errors import FerryError, UsageError
from builder.markdown import Block, blocks
from builder.mentions import Miss
from builder.results import Row, cell
from builder.stats import geomean

_BLOCK = re.compile(r"(<!-- begin: run (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
_BEGIN = re.compile(r"<!-- begin: run (\S+) -->")
_HEAD = (
    "| shape | B S D H F L | dtype | status | baseline ms | ms | speed-up | 95 % | max abs | gate share |",
    f"|{'---|' * 4}{'--:|' * 6}",
)


def table(word: str) -> str:
    """Return a run's rows, their geomean and where they were measured, made anew from the raw log.

    A retracted row stays, and leaves the geomean. UsageError when there is no such run, or its device was
    simulated.
    """
    found = figures.read(word)
    if any(row.is_simulated for row in found.rows):
        raise UsageError(f"run {found.name} has rows of a simulated device, which measure nothing")
    taken_back = found.retracted
    kept = [row for row in found.rows if not taken_back.why(row.case_id)]
    lines = [_row(row, "" if row in kept else "retracted") for row in found.rows]
    notes = [f"{line}." for line in taken_back.describe()]
    total = _total(kept, len(found.rows))
    return "\n".join([*_HEAD, *lines, "", total, *notes, "", _circumstances(found.rows[0])])


def _row(row: Row, status: str) -> str:
    sizes = (row.batch, row.seq_len, row.d_model, row.heads, row.ffn_dim, row.layers)
    ratio = interval = ""
    if row.speedup and row.speedup_low and row.speedup_high:
        ratio = f"{'' if row.is_told else '~'}{_given(row.speedup):.3f}×"
        interval = f"{_given(row.speedup_low):.3f}–{_given(row.speedup_high):.3f}"
    times = [_short(row.baseline_median_ms), _short(row.median_ms)]
    errors = [_short(row.max_abs), _short(row.gate_share)]
    cells = [row.shape, " ".join(map(str, sizes)), row.dtype, status or row.status]
    return f"| {' | '.join([*cells, *times, ratio, interval, *errors])} |"


def _given(value: float) -> float:
    """Return a figure as `results.csv` gives it."""
    return float(cell(value))


def _short(value: float | None) -> str:
    return "" if value is None else f"{_given(value):.3g}"


def _total(rows: Sequence[Row], count: int) -> str:
    speedups = [_given(row.speedup) for row in rows if row.speedup]
    if not speedups:
        return "No row has a speed-up that counts."
    return f"Geomean {geomean(speedups):.3f}× over the {len(speedups)} of {count} rows that have a speed-up."


def _circumstances(row: Row) -> str:
    return (
        f"{row.device}, driver {row.driver}, torch {row.torch}, protocol `{row.protocol}`, "
        f"route `{row.route}`, TF32 {row.tf32}, {row.started_at}; {_evidence(row.run_id)}."
    )


def _evidence(run_id: str) -> str:
    if (runs.runs_root() / PUBLISHED / run_id).exists():
        return f"raw log and samples: [`runs/{PUBLISHED}/{run_id}`](runs/{PUBLISHED}/{run_id})"
    return f"run {run_id}"


# --- in a document ------------------------------------------------------------------------------------------


def misses(text: str) -> Iterator[Miss]:
    """Yield each line of a document's tables that is not what the run gives."""
    for block in blocks(text):
        if block.kind == "generated" and (found := _BEGIN.match(block.text)):
            try:
                yield from _stale(block, table(found[1]))
            except FerryError as problem:
                yield Miss(block.number, problem.message)


def _stale(block: Block, made: str) -> Iterator[Miss]:
    has = block.text.split("\n")[1:]
    for number, (ours, theirs) in enumerate(zip_longest(has, [*made.split("\n"), "<!-- end -->"]), 1):
        if ours != theirs:
            yield Miss(block.number + number, f"{_unlike(ours or '', theirs or '')}; `ferry docs` writes it")


def _unlike(ours: str, theirs: str) -> str:
    """Say in which cells two lines of a table differ, or words; of lines that are no alike both whole."""
    between = "|" if ours.startswith("|") else " "
    pairs = list(zip_longest(ours.split(between), theirs.split(between), fillvalue=""))
    unlike = [(has.strip() or "nothing", gives.strip() or "nothing") for has, gives in pairs if has != gives]
    if len(unlike) > len(pairs) // 2:
        return f"the table has {ours!r}, the run gives {theirs!r}"
    return ", ".join(f"{has} is stale, the run gives {gives}" for has, gives in unlike)


def rows_on(text: str, line: int) -> list[Row]:
    """Return the rows that a line of a run's table tells of: one, or all that its geomean counts.

    None on a line that tells of no row. UsageError where the line is not what the run gives.
    """
    for block in blocks(text):
        found = _BEGIN.match(block.text) if block.kind == "generated" else None
        has = block.text.split("\n")
        if found and block.number < line < block.number + len(has):
            return _told_by(found[1], has[line - block.number], line)
    return []


def _told_by(word: str, line: str, number: int) -> list[Row]:
    run = figures.read(word)
    if line not in [*table(word).split("\n"), "<!-- end -->"]:
        raise UsageError(f"line {number} is not what run {run.name} gives", "ferry docs writes it anew")
    kept = [row for row in run.rows if not run.retracted.why(row.case_id)]
    if line == _total(kept, len(run.rows)):
        return [row for row in kept if row.speedup]
    return [row for row in run.rows if line == _row(row, "" if row in kept else "retracted")]


def regenerated(text: str) -> tuple[str, list[Miss]]:
    """Return a document with its tables as the runs have them, and those whose run there is not."""
    problems = []

    def write(found: re.Match[str]) -> str:
        try:
            return f"{found[1]}{table(found[2])}\n{found[3]}"
        except FerryError as problem:
            problems.append(Miss(text.count("\n", 0, found.start()) + 1, problem.message))
            return found[0]

    return _BLOCK.sub(write, text), problems
