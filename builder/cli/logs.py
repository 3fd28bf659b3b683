"""The log of a run, as its program wrote it."""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import click

from builder import crossing, retry, runs, stopping, submission
from builder.backends import State
from builder.cli._voice import envelope, error_document, say
from builder.clock import SystemClock
from builder.errors import Exit, IncompleteError, InfrastructureError, InterruptError, about
from builder.log import LogReader
from builder.runs import Run
from builder.terminal import printable
from builder.waiting import Watch
from harness.events import MARKER, CaseDone, DamagedEventError, Started, decode

Tell = Callable[[str], None]
LIVE_S = 20.0  # how long the log of a program that is never silent is shown without -f


@click.command("logs")
@click.argument("run", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on until the run is over.")
@click.option("--events", is_flag=True, help="Show the event lines too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, once the log has come.")
def command(run: str | None, follow: bool, events: bool, as_json: bool) -> Exit:
    """Print a run's log; with -f as it grows.

    With -f the exit code says how the run ended: 4 when it failed, was cancelled or is lost.

    \b
    Example:  ferry logs -f
    """
    found = runs.find(run)
    lines: list[str] = []
    tell: Tell = lines.append if as_json else click.echo
    with about(found.id):
        for part in found.parts():
            if found.spec.is_dealt:
                say(f"part {part} on {found.part_spec(part).backend}")
                if found.submission(part) is None:
                    continue
            kept = found.part(part) / "log.raw"
            if kept.exists():
                _print(LogReader(kept), events, tell)
            else:
                _live(_watch(found, part), follow, events, tell)
        bad = _bad_end(found) if follow and not found.spec.is_dealt else None  # else it is dealt again
        if as_json:
            code = bad.exit_code if bad else Exit.OK
            state = found.told(found.parts()[-1])
            error = {"error": error_document(bad)["error"]} if bad else {}
            click.echo(envelope({"lines": lines, **error}, run_id=found.id, state=state, exit_code=code))
            return code
        if bad:
            raise bad
        if follow and found.coming():
            say(f"next: ferry pull {found.id}")
    return Exit.OK


def _bad_end(run: Run) -> IncompleteError | None:
    """Return what is wrong when the last part has come to no good end."""
    state = run.told(run.parts()[-1])
    if state.is_over and state is not State.DONE:
        why = next(entry.detail for entry in reversed(run.journal()) if entry.state == state)
        said = f"run {run.id} ended {state} {why}".rstrip()
        return IncompleteError(said, f"what was measured: ferry pull {run.id}")
    return None


def _watch(run: Run, part: int) -> Watch:
    backend = crossing.backend_of(run, part)
    accepted = run.submission(part)
    if accepted is None:
        raise IncompleteError(f"run {run.id} has no log: it was never accepted", f"next: ferry pull {run.id}")
    if backend.limits().by_hand:
        raise IncompleteError(
            f"the log of run {run.id} is brought back by hand", f"see ferry status {run.id}"
        )
    return Watch(run, part, accepted, backend, SystemClock(), 0.0)


def _live(watch: Watch, follow: bool, events: bool, tell: Tell) -> None:
    """Print what a place has of a log; what no stream has brought comes from the stored log at the end."""
    reader = LogReader(_followed(watch) if follow else _until_idle(watch))
    try:
        _print(reader, events, tell)
    except KeyboardInterrupt:
        said = f"run {watch.run.id} goes on; only its log is no longer followed"
        raise InterruptError(said, f"ferry logs -f {watch.run.id}") from None
    if not watch.has_whole_log and _state(watch, follow).is_over:
        _print_stored(watch, events, tell, reader.line_count)


def _state(watch: Watch, patient: bool) -> State:
    if patient:
        return watch.ask().state
    asked = functools.partial(submission.status, watch.run, watch.part, watch.submission, watch.backend)
    return retry.read(asked, SystemClock()).state


def _print_stored(watch: Watch, events: bool, tell: Tell, skipped: int) -> None:
    with tempfile.TemporaryDirectory(prefix="ferry-log-") as folder:
        stored = Path(folder) / "log.raw"
        retry.read(lambda: watch.backend.fetch_log(watch.submission, stored), SystemClock())
        _print(LogReader(stored), events, tell, skipped)


def _followed(watch: Watch) -> Iterator[bytes]:
    yield from (seen for seen in watch.events() if isinstance(seen, bytes))


def _until_idle(watch: Watch) -> Iterator[bytes]:
    with contextlib.suppress(InfrastructureError):  # then it comes from the stored log, if there is one
        live = watch.backend.follow_log(watch.submission)
        yield from stopping.log_so_far(live, SystemClock(), 0.0, LIVE_S)
        watch.has_whole_log = next(live, None) is None


def _print(reader: LogReader, events: bool, tell: Tell, skipped: int = 0) -> None:
    for line in islice(reader.lines(), skipped, None):
        shown = line.text if events or MARKER not in line.text else _told(line.text)
        if shown:
            tell(printable(shown))


def _told(text: str) -> str:
    """Say what a case's event says to whoever follows the log; of any other event nothing is shown."""
    event = None
    with contextlib.suppress(DamagedEventError):  # the parse reports it
        event = decode(text)
    match event.body if event else None:
        case Started(case_id=case_id):
            return f"ferry: {case_id} begins"
        case CaseDone(case_id=case_id, status=status):
            return f"ferry: {case_id} {status}"
    return ""
