"""How a run is kept on its machine: cards, deadline, stop, end; the machine is this one, without ssh."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from builder.backends import State, Submission
from builder.backends.ssh import calls
from builder.errors import DeniedError
from tests.service.sshd.backing import FOREVER, Making, folder_of, part, said, started, until, until_state

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
code = "from signal import *; signal(SIGTERM, SIG_IGN); print('up', flush=True); import time; time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
print(os.getpid(), child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not end is killed after a blink."""
    text = (
        calls.program()
        .replace(b"LAST_S = 20.0", b"LAST_S = 0.3")
        .replace(b"GRACE_S = 30.0", b"GRACE_S = 0.3")
    )
    assert text != calls.program()
    monkeypatch.setattr(calls, "program", lambda: text)


def pid_in(submission: Submission, file: str) -> int:
    """The process that a file of a run names."""
    return int(json.loads((folder_of(submission) / file).read_text())["pid"])


def is_gone(pid: int) -> bool:
    """Whether a process has ended, collected or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


# --- the end ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "state", "words"),
    [
        ("print(1)", State.DONE, ""),
        ("raise SystemExit(7)", State.FAILED, "status 7 (ended)"),
        ("import os; os.kill(os.getpid(), 9)", State.FAILED, "status 137 (ended)"),
    ],
)
def test_an_end_has_its_state(place: Making, program: str, state: State, words: str) -> None:
    """The kernel's own code decides; a signal is 128 and its number."""
    backend = place()
    assert words in until_state(backend, backend.submit(part(program)), state).message


@pytest.mark.usefixtures("impatient")
def test_stop_ends_all_that_a_run_has_started(place: Making) -> None:
    """What ignores the request is killed, in whatever session it is; when stop returns it is gone."""
    backend = place()
    submission = started(backend, part(STUBBORN))
    until(lambda: len(said(submission)) == 3)
    pids = [int(word) for word in said(submission) if word != "up"]
    backend.stop(submission)
    assert all(map(is_gone, pids))
    [status] = backend.status([submission])
    assert status.state is State.CANCELLED
    backend.stop(submission)  # which changes nothing any more
    assert backend.status([submission]) == [status]


@pytest.mark.usefixtures("impatient")
def test_a_deadline_is_kept_there(place: Making) -> None:
    """A kernel that ignores its own limit is ended by its keeper, and the message says why."""
    backend = place()
    submission = backend.submit(part(FOREVER, timeout_s=0.1))
    assert "deadline" in until_state(backend, submission, State.FAILED).message


def test_a_run_without_its_keeper_goes_on(place: Making) -> None:
    """A killed keeper costs the deadline, not the run; stop still stops it, and its card is free then."""
    backend = place()
    submission = started(backend, part(FOREVER))
    os.kill(pid_in(submission, "keeper.json"), signal.SIGKILL)
    until(lambda: bool(backend.status([submission])[0].message))
    assert backend.status([submission])[0].state is State.RUNNING
    waiting = backend.submit(part("print(1)", 2))
    until_state(backend, waiting, State.QUEUED)
    backend.stop(submission)
    assert is_gone(pid_in(submission, "started.json"))
    assert backend.status([submission])[0].state is State.CANCELLED
    until_state(backend, waiting, State.DONE)


def test_a_run_that_was_killed_whole_is_lost(place: Making, tmp_path: Path) -> None:
    """Nobody is there to say how it ended, but its log is still there to fetch."""
    backend = place()
    submission = started(backend, part(FOREVER))
    for file in ("keeper.json", "started.json"):
        os.kill(pid_in(submission, file), signal.SIGKILL)
    assert "killed" in until_state(backend, submission, State.LOST).message
    assert b"".join(backend.follow_log(submission)) == b"up\n"
    backend.fetch_log(submission, tmp_path / "log.raw")
    assert (tmp_path / "log.raw").read_text() == "up\n"


@pytest.mark.parametrize(
    ("change", "words"),
    [({"boot": "another"}, "started anew"), ({"began": "1"}, "killed")],
    ids=["machine restarted", "numbers used again"],
)
def test_a_number_that_is_anothers_is_no_run(place: Making, change: dict[str, str], words: str) -> None:
    """After a restart, or long after its end, a process with the run's number is not taken for it."""
    backend = place()
    submission = started(backend, part(FOREVER))
    kept = {}
    for file in ("keeper.json", "started.json"):
        path = folder_of(submission) / file
        kept[path] = path.read_text()
        path.write_text(json.dumps({**json.loads(kept[path]), **change}))
    [status] = backend.status([submission])
    assert (status.state, words in status.message) == (State.LOST, True)
    for path, text in kept.items():
        path.write_text(text)


def test_a_folder_that_is_gone_is_a_lost_run(place: Making, tmp_path: Path) -> None:
    """A machine that was made anew has nothing of the run, and says which folder is missing."""
    backend = place()
    gone = Submission("ssh:box1", f"box1:{tmp_path}/there/none", "none")
    here = backend.submit(part("print(1)"))
    until_state(backend, here, State.DONE)
    lost, done = backend.status([gone, here])
    assert (lost.state, done.state) == (State.LOST, State.DONE)
    assert "none is not there" in lost.message
    with pytest.raises(DeniedError, match="left no log"):
        backend.fetch_log(gone, tmp_path / "log.raw")


# --- starting once ----------------------------------------------------------------------------------------


def test_a_run_is_started_once(place: Making, tmp_path: Path) -> None:
    """However often it is submitted, by whomever, one kernel runs and all get the same submission."""
    backend = place()
    intent = part(f"open({str(tmp_path / 'starts')!r}, 'a').write('x')")
    assert backend.find(intent) is None
    first = backend.submit(intent)
    assert [backend.find(intent), place().submit(intent), place().find(intent)] == [first] * 3
    until_state(backend, first, State.DONE)
    assert backend.submit(intent) == first
    assert (tmp_path / "starts").read_text() == "x"


def test_a_kernel_without_a_keeper_was_not_started(place: Making, tmp_path: Path) -> None:
    """What a submit leaves that broke off after the copy is not found, and the next one starts it."""
    backend = place()
    intent = part("print(1)")
    first = backend.submit(intent)
    until_state(backend, first, State.DONE)
    left = folder_of(first)
    for path in list(left.iterdir()):
        if path.name not in ("kernel.py", "job.json"):
            path.rmdir() if path.is_dir() else path.unlink()
    assert backend.find(intent) is None
    assert backend.submit(intent) == first
    until_state(backend, first, State.DONE)
