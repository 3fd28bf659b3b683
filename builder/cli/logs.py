"""The log of a run, as its program wrote it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from builder import crossing, runs
from builder.clock import SystemClock
from builder.errors import Exit, IncompleteError
from builder.log import LogReader
from builder.runs import Run
from builder.terminal import printable
from builder.waiting import Watch
from harness.events import MARKER


@click.command("logs")
@click.argument("run", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on until the run is over.")
@click.option("--events", is_flag=True, help="Show the event lines too.")
def command(run: str | None, follow: bool, events: bool) -> Exit:
    """Print a run's log; with -f as it grows.

    \b
    Example:  ferry logs -f
    """
    found = runs.find(run)
    for line in LogReader(_source(found, follow)).lines():
        if events or MARKER not in line.text:
            click.echo(printable(line.text))
    return Exit.OK


def _source(run: Run, follow: bool) -> Path | Iterable[bytes]:
    fetched = run.part(crossing.PART) / "log.raw"
    if fetched.exists():
        return fetched
    accepted = run.submission(crossing.PART)
    if accepted is None:
        raise IncompleteError(f"run {run.id} has no log: it was never accepted", f"next: ferry pull {run.id}")
    backend = crossing.backend_of(run)
    if backend.limits().by_hand:
        raise IncompleteError(
            f"the log of run {run.id} is brought back by hand", f"see ferry status {run.id}"
        )
    if follow:
        return _followed(Watch(run, crossing.PART, accepted, backend, SystemClock(), 0.0))
    return _until_idle(backend.follow_log(accepted))


def _followed(watch: Watch) -> Iterator[bytes]:
    return (seen for seen in watch.events() if isinstance(seen, bytes))


def _until_idle(blocks: Iterable[bytes]) -> Iterator[bytes]:
    for block in blocks:
        if not block:
            return
        yield block
