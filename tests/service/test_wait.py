"""Waiting for a run of the service and following its log, with what goes wrong on the way."""

from __future__ import annotations

import pytest

from tests.service.ferrying import ferry, held, passing, program, pushed, released, states
from tests.service.kaggle.knobs import Ending
from tests.service.kaggle.server import KaggleServer
from tests.unit.written_logs import lines_of

SPEAKING = "for number in range(40):\n    print('zeile', number, 'größe', flush=True)\n    time.sleep(0.01)\n"


def spoken(text: str) -> list[str]:
    """The lines that the program has said, in order."""
    return [line for line in text.splitlines() if line.startswith("zeile")]


ALL_SPOKEN = [f"zeile {number} größe" for number in range(40)]


@pytest.fixture
def speaking(hurried: KaggleServer) -> KaggleServer:
    """A service with a run that says forty lines in half a second."""
    pushed(hurried, "import time\n" + SPEAKING)
    return hurried


def test_logs_follow_to_the_end(speaking: KaggleServer) -> None:
    """The whole log comes, each line once, and the exit code is 0."""
    done = ferry("logs", "-f")
    assert (done.code, spoken(done.out)) == (0, ALL_SPOKEN)


@pytest.mark.parametrize("charset", [True, False])
def test_stream_cuts_are_skipped_by_position(speaking: KaggleServer, charset: bool) -> None:
    """A stream that is cut and replays from its start shows each line once, in any charset."""
    speaking.knobs.stream_cuts, speaking.knobs.stream_charset = [3, 9, 9, 20], charset
    done = ferry("logs", "-f")
    assert (done.code, spoken(done.out)) == (0, ALL_SPOKEN)


def test_no_stream_falls_back_to_the_stored_log(speaking: KaggleServer) -> None:
    """Without a stream the state is polled, and the log is printed when it is there."""
    speaking.knobs.stream = False
    done = ferry("logs", "-f")
    assert (done.code, spoken(done.out)) == (0, ALL_SPOKEN)


def test_a_stream_that_dies_half_way_is_completed(speaking: KaggleServer) -> None:
    """What the stream has shown is not shown again when the rest comes from the stored log."""
    speaking.knobs.stream_cuts = [12] * 50
    done = ferry("logs", "-f")
    assert (done.code, spoken(done.out)) == (0, ALL_SPOKEN)


def test_stream_silence(speaking: KaggleServer) -> None:
    """A stream that is silent for a while is not given up."""
    speaking.knobs.stream_silence_s = 1.5
    assert spoken(ferry("logs", "-f").out) == ALL_SPOKEN


def test_logs_of_a_failed_run_say_so(hurried: KaggleServer) -> None:
    """The log of a run that failed is shown, and the exit code is 4."""
    run = held(hurried)
    released(hurried, "print('zeile', flush=True)\nraise SystemExit(3)")
    done = ferry("logs", "-f")
    assert (done.code, spoken(done.out)) == (4, ["zeile"])
    assert f"run {run.id} ended failed" in done.err


def test_unseen(hurried: KaggleServer) -> None:
    """404 right after a push is waited out."""
    hurried.knobs.unseen_s = 0.5
    pushed(hurried)
    done = ferry("pull")
    assert done.code == 0, done.err


def test_denied(hurried: KaggleServer) -> None:
    """A kernel that is gone ends the wait, exit 5, with the likely cause; the run is not shown as good."""
    run = pushed(hurried)
    hurried.kernels.delete(hurried.sessions[0].kernel)
    done = ferry("pull")
    assert done.code == 5
    assert "account" in done.err or "deleted" in done.err or "slug" in done.err
    assert not run.is_finished


@pytest.mark.parametrize("word", ["ERROR", "CANCEL_ACKNOWLEDGED"])
def test_an_end_of_the_services_own(hurried: KaggleServer, word: str) -> None:
    """A run that was killed or cancelled after its work is done is still pulled, with its rows."""
    run = held(hurried)
    hurried.knobs.ending = Ending(1.5, word)
    text = program(lines_of(passing(run), run.id), rest="import time\ntime.sleep(99)")
    released(hurried, text)
    done = ferry("pull", "--json")
    assert done.document["counts"] == {"passed": 1}
    assert ("failed" if word == "ERROR" else "cancelled") in states(run)


def test_the_hosts_patience(hurried: KaggleServer) -> None:
    """--wait ends with 124, the run goes on, and a later pull has it."""
    run = held(hurried)
    done = ferry("pull", "--wait", "2m")
    assert done.code == 124
    assert f"it goes on: ferry pull {run.id}" in done.err
    released(hurried, program(lines_of(passing(run), run.id)))
    assert ferry("pull").code == 0


def test_stop_asks_and_keeps_the_log(hurried: KaggleServer) -> None:
    """Stopping deletes: without a terminal it needs --yes, and what had come of the log makes the rows."""
    run = held(hurried)
    released(hurried, program(lines_of(passing(run), run.id), rest="import time\ntime.sleep(99)"))
    while not hurried.sessions[0].log.records:
        pass
    done = ferry("stop")
    assert done.code == 2
    assert "deletes its kernel on kaggle, with its log and outputs" in done.err and "--yes" in done.err
    assert not hurried.sessions[0].kernel.deleted
    done = ferry("stop", "--yes")
    assert done.code == 0, done.err
    assert hurried.sessions[0].kernel.deleted
    assert states(run)[-2:] == ["cancelled", "fetched"]
    assert ferry("pull", "--json").document["counts"] == {"passed": 1}


def test_stop_refuses_to_lose_the_log(hurried: KaggleServer) -> None:
    """When the log cannot be fetched nothing is deleted, unless that is said."""
    run = held(hurried)
    released(hurried, "import time\ntime.sleep(99)")
    while hurried.sessions[0].status != "RUNNING":
        pass
    hurried.knobs.stream = False
    done = ferry("stop", "--yes")
    assert done.code == 5
    assert "nothing was stopped" in done.err and "--lose-log" in done.err
    assert not hurried.sessions[0].kernel.deleted
    assert ferry("stop", "--yes", "--lose-log").code == 0
    assert states(run)[-2:] == ["cancelled", "fetched"]
