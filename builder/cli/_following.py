"""Follow a run from the host: one line a finished case, and the right end for Ctrl-C."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping

from builder import crossing, stopping
from builder.backends import Backend, Status
from builder.cli._progress import Progress
from builder.clock import Clock, SystemClock
from builder.errors import InterruptError, UsageError
from builder.log import LogReader
from builder.runs import Run
from builder.waiting import Watch
from harness.events import CaseDone, DamagedEventError, Event, Plan, decode


def follow(places: Mapping[Run, Backend], patience_s: float) -> None:
    """Show the cases of these runs as they end, until every part is over: one poller for all of them.

    Ctrl-C stops local runs, which live on this machine only, and leaves any others alone.
    """
    clock = SystemClock()
    try:
        _show(crossing.watch(places, clock, patience_s), Progress(clock))
    except KeyboardInterrupt:
        said = [_interrupted(run, backend, clock) for run, backend in places.items()]
        names = " ".join(run.id for run in places)
        raise InterruptError("; ".join(said), f"to come back: ferry pull {names}") from None


def _interrupted(run: Run, backend: Backend, clock: Clock) -> str:
    if run.spec.backend != "local":
        return f"detached from run {run.id}, which goes on"
    with contextlib.suppress(UsageError):  # it has just ended by itself
        stopping.stop(run, run.parts()[-1], backend, clock)
    return f"stopped run {run.id}, with what was measured until now"


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
