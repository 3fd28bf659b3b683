"""`ferry` in this process, on a clock that naps for a blink, against a service whose programs are canned."""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

import pytest

from builder import runs
from builder.cli import main
from builder.clock import SystemClock
from builder.runs import Run
from harness.events import Body, End, Plan, Planned, RunRef
from tests.service.kaggle.server import KaggleServer
from tests.unit.written_logs import CARD, TERMS, lines_of, timed

BLINK_S = 0.05
ONE_CASE = (
    "--backend",
    "kaggle",
    "--accelerator",
    "cpu",
    "--shapes",
    "1",
    "--route",
    "eager",
    "--no-rehearsal",
)


class Hurried(SystemClock):
    """A clock that goes on by what was to be slept, and hardly sleeps."""

    skipped = 0.0

    def now(self) -> float:
        """Return the wall clock with what was skipped."""
        return time.time() + Hurried.skipped

    def monotonic(self) -> float:
        """Return the seconds with what was skipped."""
        return time.monotonic() + Hurried.skipped

    def sleep(self, seconds: float) -> None:
        """Be later after a blink."""
        time.sleep(min(seconds, BLINK_S))
        Hurried.skipped += max(0.0, seconds - BLINK_S)


@dataclass(frozen=True)
class Done:
    """What a command has come to."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The JSON document on stdout."""
        return json.loads(self.out)


def ferry(*arguments: str) -> Done:
    """Run a command of `ferry` in this process, with no terminal."""
    out, err, before = io.StringIO(), io.StringIO(), (sys.argv, sys.stdin)
    sys.argv, sys.stdin = ["ferry", *arguments], io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main()
    finally:
        sys.argv, sys.stdin = before
    return Done(int(ended.value.code or 0), out.getvalue(), err.getvalue())


def only_run() -> Run:
    """Return the one run there is."""
    [run] = runs.all_runs()
    return run


def states(run: Run, part: int = 1) -> list[str]:
    """The states of a part, in the journal's order."""
    return [entry.state for entry in run.journal() if entry.part == part]


def passing(run: Run, part: int = 1) -> list[Body]:
    """What a part's kernel says when every case passes."""
    cases = run.part_spec(part).cases
    plan = Plan(RunRef(run.id, part), TERMS, len(cases), "2026-01-02T03:04:05+00:00")
    said: list[Body] = [plan, *(Planned(index, case) for index, case in enumerate(cases)), CARD]
    for case in cases:
        said += timed(case)
    return [*said, End("complete", {"passed": len(cases)}, 1.0)]


def program(lines: Sequence[str], kept: Sequence[str] | None = None, rest: str = "") -> str:
    """A script that prints event lines, and keeps them, or others, as the results file."""
    file = "".join(f"{line}\n" for line in (lines if kept is None else kept))
    told = "\n".join(lines)
    return f"print({told!r}, flush=True)\nopen('ferry-events.jsonl', 'w').write({file!r})\n{rest}\n"


def held(kaggle: KaggleServer, *options: str) -> Run:
    """Push one case into a queue that nothing leaves."""
    kaggle.knobs.hold = True
    done = ferry("push", *ONE_CASE, *options)
    assert done.code == 0, done.err
    return runs.all_runs()[0]


def released(kaggle: KaggleServer, text: str) -> None:
    """Let the queue go, and this program be what runs."""
    kaggle.knobs.stand_in = text
    kaggle.knobs.hold = False


def pushed(kaggle: KaggleServer, rest: str = "") -> Run:
    """Push one case, whose program is as good as done: it passes."""
    run = held(kaggle)
    released(kaggle, program(lines_of(passing(run), run.id), rest=rest))
    return run
