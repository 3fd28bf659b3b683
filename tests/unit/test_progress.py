"""The line that says how far a run is: written over on a terminal, sparse lines elsewhere."""

from __future__ import annotations

import io
import sys

import pytest

from builder.backends import Quota, State, Status, Submission
from builder.backends.manual import Manual
from builder.cli._progress import Progress
from builder.runs import Run
from builder.waiting import Watch
from tests.unit.clocks import Hourglass


class Terminal(io.StringIO):
    """Something that says that it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


class Counted(Manual):
    """A place with a quota."""

    def quota(self) -> list[Quota]:
        """Half of it is used."""
        return [Quota("GPU", 15 * 3600.0, 30 * 3600.0)]


def shown(monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO, tmp_run: Run) -> str:
    """Everything that a run of two cases has shown on stderr."""
    clock = Hourglass()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    progress = Progress(clock)
    watch = Watch(tmp_run, 1, Submission("manual", "", "ferry-x-1"), Counted(), clock, 0.0)
    progress.learn(watch, Status(State.RUNNING))
    progress.planned = 2
    clock.sleep(65.0)
    progress.show()
    progress.case("t01-eager", "passed")
    progress.learn(watch, Status(State.DONE))
    progress.clear()
    return stderr.getvalue()


@pytest.fixture
def run(tmp_path: pytest.TempPathFactory) -> Run:
    """A run whose spec asks for nothing."""
    from builder import runs
    from builder.spec import RunSpec

    with runs.create(RunSpec("smoke", (), run_id="20261130-101112-abcdef")) as draft:
        draft.part(1).mkdir(parents=True)
    return Run(runs.runs_root() / "20261130-101112-abcdef")


def test_elsewhere_lines_are_few(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """A line for each state and each case, with time and quota, and nothing is written over."""
    assert shown(monkeypatch, io.StringIO(), run).splitlines() == [
        "ferry-x-1 is running (0:00) · 15.0 h of GPU quota left",
        "1/2 t01-eager passed",
        "ferry-x-1 is done (1:05) · 15.0 h of GPU quota left",
    ]


def test_on_a_terminal_one_line_is_written_over(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """State, cases done, elapsed time and quota stand in one line, which is gone at the end."""
    text = shown(monkeypatch, Terminal(), run)
    assert "\r\x1b[Krunning · 0/2 cases · 1:05 · 15.0 h of GPU quota left" in text
    assert "\r\x1b[Krunning · 1/2 cases · 1:05" in text
    assert text.endswith("\r\x1b[K")
