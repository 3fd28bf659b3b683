"""Follow a run from the host: one line a finished case, and the right end for Ctrl-C."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from builder import crossing, submission
from builder.backends import Backend, Status
from builder.cli._output import say
from builder.clock import SystemClock
from builder.errors import InterruptError, UsageError
from builder.log import LogReader
from builder.runs import Run
from builder.waiting import Watch
from harness.events import CaseDone, DamagedEventError, Plan, decode


def follow(run: Run, backend: Backend, patience_s: float) -> None:
    """Show the run's cases as they end, until every part is over.

    Ctrl-C stops a local run, which lives on this machine only, and leaves any other alone.
    """
    clock = SystemClock()
    try:
        _show(_blocks(crossing.watch(run, backend, clock, patience_s)))
    except KeyboardInterrupt:
        if run.spec.backend != "local":
            raise InterruptError(
                f"detached from run {run.id}, which goes on", f"ferry pull {run.id}"
            ) from None
        for part in run.coming():
            with contextlib.suppress(UsageError):  # it has just ended by itself
                submission.stop(run, part, backend)
        said = f"stopped run {run.id}"
        raise InterruptError(said, f"what was measured until now: ferry pull {run.id}") from None


def _show(blocks: Iterable[bytes]) -> None:
    planned, ended = 0, 0
    for line in LogReader(blocks).lines():
        try:
            event = decode(line.text)
        except DamagedEventError:
            continue  # the parse reports it; a progress line need not
        if event is None:
            continue
        if isinstance(event.body, Plan):
            planned = event.body.planned
        if isinstance(event.body, CaseDone):
            ended += 1
            say(f"{ended}/{planned} {event.body.case_id} {event.body.status}")


def _blocks(seen: Iterable[tuple[Watch, Status | bytes]]) -> Iterator[bytes]:
    for _, news in seen:
        if isinstance(news, bytes):
            yield news
        elif news.message:
            say(news.message)
