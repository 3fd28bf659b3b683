"""Follow a run from the host: one line a finished case, and the right end for Ctrl-C."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from builder import crossing, stopping
from builder.backends import Backend, Status
from builder.cli._progress import Progress
from builder.clock import SystemClock
from builder.errors import InterruptError, UsageError
from builder.log import LogReader
from builder.runs import Run
from builder.waiting import Watch
from harness.events import CaseDone, DamagedEventError, Event, Plan, decode


def follow(run: Run, backend: Backend, patience_s: float) -> None:
    """Show the run's cases as they end, until every part is over.

    Ctrl-C stops a local run, which lives on this machine only, and leaves any other alone.
    """
    clock = SystemClock()
    try:
        _show(crossing.watch(run, backend, clock, patience_s), Progress(backend, clock))
    except KeyboardInterrupt:
        if run.spec.backend != "local":
            raise InterruptError(
                f"detached from run {run.id}, which goes on", f"to come back: ferry pull {run.id}"
            ) from None
        with contextlib.suppress(UsageError):  # it has just ended by itself
            stopping.stop(run, run.parts()[-1], backend, clock)
        said = f"stopped run {run.id}"
        raise InterruptError(said, f"what was measured until now: ferry pull {run.id}") from None


def _show(seen: Iterable[tuple[Watch, Status | bytes]], progress: Progress) -> None:
    try:
        for line in LogReader(_blocks(seen, progress)).lines():
            with contextlib.suppress(DamagedEventError):  # the parse reports it; a progress line need not
                _take(decode(line.text), progress)
    finally:
        progress.clear()


def _take(event: Event | None, progress: Progress) -> None:
    body = event.body if event else None
    if isinstance(body, Plan):
        progress.planned, progress.ended = body.planned, 0
    elif isinstance(body, CaseDone):
        progress.case(body.case_id, body.status)


def _blocks(seen: Iterable[tuple[Watch, Status | bytes]], progress: Progress) -> Iterator[bytes]:
    for watch, news in seen:
        if isinstance(news, bytes):
            progress.show()
            yield news
        else:
            progress.learn(watch, news)
