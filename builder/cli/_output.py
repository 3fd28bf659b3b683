"""What people and programs are shown of a run: where it stands, its rows as a table or as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from builder import results, stats, submission, timings, turns
from builder.backends import Backend, State, Status
from builder.cli._notes import busy_lines, note
from builder.cli._voice import document, for_people, in_json
from builder.cli._voice import envelope as envelope
from builder.cli._voice import say as say
from builder.cli._voice import show_error as show_error
from builder.clock import SystemClock
from builder.crossing import FIRST_PART, Outcome
from builder.errors import Exit, InfrastructureError
from builder.results import Row
from builder.retractions import Retracted
from builder.runs import Run, runs_root
from builder.stats import Comparison, Word, geomean
from builder.terminal import one_line

if TYPE_CHECKING:
    from rich.text import Text

_TABLE_WIDTH = 120


def show_pushed(run: Run, backend: Backend, as_json: bool, part: int = FIRST_PART) -> Exit:
    """Show where a part stands that its place has just accepted, and what comes next."""
    accepted = submission.accepted(run, part, backend, SystemClock())
    try:
        now = submission.status(run, part, accepted, backend)
    except InfrastructureError:  # it is accepted, which is what was asked for
        now = Status(State.QUEUED)
    if as_json:
        files = sorted(run.part(part).glob("kernel*"))
        click.echo(envelope({"url": accepted.url}, run_id=run.id, state=now.state, files=files))
    else:
        say(f"run {run.id} is {now.state} on {backend.name} {accepted.url}".rstrip())
        say(now.message or f"it goes on by itself; next: ferry pull {run.id}")
    return Exit.OK


def show_outcome(outcome: Outcome, state: str, as_json: bool) -> Exit:
    """Show a run's rows as a table, or as the envelope; return its exit code."""
    if as_json:
        click.echo(in_json(outcome_document(outcome, state)))
    else:
        tell_outcome(outcome, state)
    return outcome.exit_code


def outcome_document(outcome: Outcome, state: str) -> dict[str, object]:
    """Return what programs are told of a run's rows."""
    records, rows = outcome.records, outcome.rows
    because = {row.case_id: outcome.retracted.why(row.case_id) for row in rows}
    return document(
        {
            "rows": [{name: results.cell(getattr(row, name)) for name in results.COLUMNS} for row in rows],
            "problems": [*outcome.notes, *records.problems],
            "retracted": {case_id: why for case_id, why in because.items() if why},
        },
        run_id=records.run_id,
        state=state,
        exit_code=outcome.exit_code,
        counts=results.counts(rows),
        files=outcome.files,
    )


def tell_outcome(outcome: Outcome, state: str) -> None:
    """Show people a run's rows as a table, with what is to be said of them."""
    if outcome.rows:
        _table(outcome.rows, outcome.retracted)
    else:
        say("the plan of no case is in the log, so that there are no results")
    for problem in (*outcome.notes, *outcome.records.problems):
        say(f"note: {problem}")
    for line in busy_lines(outcome.records):
        say(line)
    for path in outcome.files:
        say(str(path))
    if state == "parsed" and (told := _next(outcome)):
        say(told)


def _next(outcome: Outcome) -> str:
    """Return what somebody would do about a run that has not all its results, or nothing."""
    run_id = outcome.records.run_id
    if not run_id or not (runs_root() / run_id).exists():
        return ""
    if outcome.exit_code is Exit.WRONG_ACCELERATOR:
        return "to measure on whatever comes, push again with --allow-accelerator-mismatch"
    return (
        f"next, for the missing cases: ferry resume {run_id}" if outcome.exit_code is Exit.INCOMPLETE else ""
    )


def _table(rows: Sequence[Row], retracted: Retracted) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("shape", "route", "dtype", "status"):
        table.add_column(name, no_wrap=True)
    for name in ("baseline ms", "ms", "speed-up", "95 %", "max abs", "gate share"):
        table.add_column(name, justify="right", no_wrap=True)
    notes = ["retracted" if retracted.why(row.case_id) else note(row) for row in rows]
    if any(notes):
        table.add_column("note", no_wrap=True)
    for row, told in zip(rows, notes, strict=True):
        cells = [Text(one_line(text)) for text in _cells(row)]
        table.add_row(*cells[:3], _status(row.status), *cells[3:], *([told] if any(notes) else []))
    console = Console(stderr=not for_people(), highlight=False)
    console.width = max(
        console.width, _TABLE_WIDTH + max(map(len, notes))
    )  # figures cut to fit would be wrong ones
    console.print(table)
    counted = [row for row in rows if not retracted.why(row.case_id)]
    for line in (*_causes(rows), *turns.unlike_medians(counted), *retracted.describe(), *_summary(counted)):
        say(line)


def _causes(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what the cases have to say, the last line of each; what several say alike comes once."""
    saying: dict[str, list[str]] = {}
    for row in rows:
        if told := row.error or row.route_note:
            saying.setdefault(told.strip().rpartition("\n")[2], []).append(row.case_id)
    for words, cases in saying.items():
        yield f"{cases[0] if len(cases) == 1 else f'{len(cases)} cases'}: {words}"


def _cells(row: Row) -> tuple[str, ...]:
    interval = f"{row.speedup_low:.2f}–{row.speedup_high:.2f}" if row.speedup_low and row.speedup_high else ""
    route = row.route if row.route_ran in ("", row.route) else f"{row.route} → {row.route_ran}"
    return (
        row.shape,
        route,
        row.dtype,
        _number(row.baseline_median_ms, ".4g"),
        _number(row.median_ms, ".4g"),
        ("~" if row.speedup and not row.is_told else "") + _number(row.speedup, ".2f", "×"),
        interval,
        _number(row.max_abs, ".2g"),
        _number(row.gate_share, ".2g"),
    )


def _status(status: str) -> Text:
    from rich.text import Text

    return Text(status, {"passed": "green", "infeasible": "yellow", "not_run": "yellow"}.get(status, "red"))


def _number(value: float | None, form: str, unit: str = "") -> str:
    return "" if value is None else f"{value:{form}}{unit}"


def _summary(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the totals: what became of the cases, then each route's geomean, which are never blended."""
    devices = sorted({row.device for row in rows if row.device})
    where = " and ".join(devices) or "no device"
    yield f"{', '.join(f'{count} {status}' for status, count in results.counts(rows).items())} on {where}"
    kinds = [(*_kind(row), *([row.device] if len(devices) > 1 else [])) for row in rows]
    for kind in dict.fromkeys(kinds):
        ours = [row for row, own in zip(rows, kinds, strict=True) if own == kind]
        ratios = [row.speedup for row in ours if row.speedup]
        if ratios:
            figure = f"geomean {geomean(ratios):.3f}× over {len(ratios)} of {len(ours)}"
            yield ", ".join([f"{' '.join(kind)}: {figure}", *_noise(ours)])
        yield from _against(ours)


def _against(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the verdict on two versions: each case's where they are several, then the one on all of them."""
    found = [(row, figures) for row in rows if (figures := timings.against(row.flags))]
    if not found:
        return
    name = found[0][0].flags.get("against", "the other version")
    if len(found) > 1:
        for row, one in found:
            yield f"  {row.case_id}: {_verdict(one)}"
    yield f"against {name}: {_verdict(stats.together([one for _, one in found]))}"


def _verdict(found: Comparison) -> str:
    words = {Word.UNTOLD: "cannot tell", Word.SAME: f"no difference beyond {found.threshold:.1%}"}
    return f"{found.ratio:.3f}× ({found.low:.3f}–{found.high:.3f}), {words.get(found.word, found.word)}"


def _kind(row: Row) -> tuple[str, ...]:
    return row.route, row.dtype, row.protocol


def _noise(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what bears on a geomean and is not in it: noise, and what came before the timing."""
    floors = [row.noise_floor for row in rows if row.noise_floor is not None]
    if floors:
        yield f"noise floor up to {max(floors):.1%}"
    itself = [float(row.flags["aa"]) for row in rows if "aa" in row.flags]
    if itself:
        yield f"the baseline against itself {', '.join(f'{ratio:.3f}' for ratio in itself)}"
    firsts = [row.first_call_s for row in rows if row.first_call_s is not None]
    if firsts:
        yield f"first call up to {max(firsts):.3g} s"
    compiling = [row.compile_s for row in rows if row.compile_s is not None]
    if compiling:
        yield f"compiling up to {max(compiling):.3g} s"
    if within := sum(not row.is_told for row in rows if row.speedup):
        yield f"{within} within the noise (~)"
