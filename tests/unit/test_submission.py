"""The policy around a place that says no, or does not answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from builder import runs, stopping, submission
from builder.backends import Intent, State, Status, Submission
from builder.backends.local import Local
from builder.backends.manual import Manual
from builder.errors import (
    CapacityError,
    FerryError,
    InfrastructureError,
    RefusedThereError,
    UsageError,
    WaitExpiredError,
)
from builder.runs import Run
from builder.spec import RunSpec
from builder.waiting import Watch
from tests.unit.clocks import Hourglass


class Failing(Manual):
    """A place whose answer to a push is an error."""

    def __init__(self, error: FerryError) -> None:
        self.error = error
        self.asked = self.pushed = 0

    def submit(self, intent: Intent) -> Submission:
        """Say no."""
        self.pushed += 1
        raise self.error

    def find(self, intent: Intent) -> Submission | None:
        """It has accepted the push all the same."""
        self.asked += 1
        return Submission(self.name, "found", intent.slug)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run with one part that nobody has accepted."""
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path))
    with runs.create(RunSpec("smoke", (), run_id="20261130-101112-abcdef")) as draft:
        draft.part(1).mkdir(parents=True)
    return Run(tmp_path / "20261130-101112-abcdef")


def test_a_push_without_an_answer_is_looked_for_and_not_repeated(run: Run) -> None:
    """A lost connection is no refusal: the place may have accepted the kernel."""
    place = Failing(InfrastructureError("the connection was lost"))
    assert submission.submit(run, 1, place, Hourglass()).reference == "found"
    assert (place.asked, place.pushed) == (1, 1)


@pytest.mark.parametrize("error", [RefusedThereError("no"), CapacityError("full")])
def test_a_refusal_is_in_the_journal(run: Run, error: FerryError) -> None:
    """Nothing was accepted, and the run expects nothing more."""
    with pytest.raises(type(error)):
        submission.submit(run, 1, Failing(error), Hourglass())
    assert run.state(1) == State.REFUSED
    assert run.is_finished


def _carried_away(run: Run) -> Manual:
    submission.submit(run, 1, Manual(), Hourglass())
    return Manual()


def _imported(run: Run) -> Manual:
    (run.part(1) / "log.raw").write_text("here\n")
    return _carried_away(run)


def _never_accepted(_: Run) -> Local:
    return Local()


CASES = [
    (_carried_away, "carried away by hand"),
    (_imported, "over already: done"),
    (_never_accepted, "was never accepted"),
]


@pytest.mark.parametrize(("make", "said"), CASES)
def test_what_cannot_be_stopped_says_why(run: Run, make: Callable[[Run], Manual | Local], said: str) -> None:
    """`ferry stop` does not claim to have asked for what it cannot do."""
    with pytest.raises(UsageError, match=said):
        stopping.stop(run, 1, make(run), Hourglass())


def test_a_log_without_its_local_run_ends(run: Run) -> None:
    """A part that was accepted and has left nothing on this machine is lost, not awaited for ever."""
    accepted = Submission("local", runs.place(run.part(1)), "slug")
    blocks: Iterator[bytes] = Local().follow_log(accepted)
    assert list(blocks) == []
    assert Local().status([accepted])[0].state is State.LOST


def test_the_host_s_patience_ends_on_time(run: Run) -> None:
    """The last nap is cut to the patience, a state is told once, and the exit code is 124."""
    clock, told = Hourglass(), list[Status | bytes]()
    accepted = submission.submit(run, 1, Manual(), clock)
    with pytest.raises(WaitExpiredError, match=r"still queued after 2\.5 s") as raised:
        told.extend(Watch(run, 1, accepted, Manual(), clock, 2.5).events())
    assert int(raised.value.exit_code) == 124
    assert clock.naps == [1.0, 1.0, 0.5]
    assert run.state(1) == State.QUEUED
