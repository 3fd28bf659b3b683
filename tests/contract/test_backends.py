"""What every backend must do, run against every backend there is, and what only one of them does."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from builder import backends
from builder.backends import Backend, Intent, State, Status, Submission
from builder.backends.local import Local
from builder.backends.manual import Manual
from builder.errors import FerryError, InfrastructureError, RefusedHereError, UsageError
from builder.runs import runs_root
from tests.service.kaggle.server import serving
from tests.service.slurm import daemons as slurm
from tests.service.sshd.server import sshd

PROGRAM = """
import sys
from pathlib import Path
print("hello")
print("wörld", file=sys.stderr)
Path("result.txt").write_text("42")
"""


@pytest.fixture
def intent() -> Intent:
    """A part whose kernel is a small program."""
    return make_intent(PROGRAM)


def make_intent(program: str, timeout_s: float = 0.0) -> Intent:
    """Put a kernel into a part's folder of its own."""
    part = runs_root() / "20261130-101112-abcdef" / "parts" / "1"
    part.mkdir(parents=True)
    (part / "kernel.py").write_text(program, encoding="utf-8")
    return Intent("20261130-101112-abcdef", 1, "ferry-20261130-101112-abcdef-1", part, timeout_s=timeout_s)


def until(condition: Callable[[], bool], limit_s: float = 30.0) -> None:
    """Poll until a condition holds; fail when it never does."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


def over(backend: Backend, submission: Submission) -> Status:
    """Wait for a submission's end."""
    until(lambda: backend.status([submission])[0].state.is_over)
    return backend.status([submission])[0]


@pytest.fixture
def accepted(intent: Intent) -> Iterator[Submission]:
    """A submission of a kernel that would run for ever, ended with the test."""
    (intent.folder / "kernel.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(600)\n")
    submission = Local().submit(intent)
    yield submission
    Local().stop(submission)
    over(Local(), submission)


# --- every backend ----------------------------------------------------------------------------------------


@pytest.fixture(params=backends.names())
def backend(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Backend]:
    """Each backend, with the service that it needs."""
    name: str = request.param
    with contextlib.ExitStack() as services:
        if name == "kaggle":
            for variable, value in services.enter_context(serving()).environment().items():
                monkeypatch.setenv(variable, value)
        if name == "slurm":
            cluster = services.enter_context(slurm.running(mine=True))
            monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
        if name == "ssh":
            machine = services.enter_context(sshd())
            for variable, value in machine.environment.items():
                monkeypatch.setenv(variable, value)
            monkeypatch.setenv("XDG_RUNTIME_DIR", str(machine.home))
            machine.project(tmp_path)
            monkeypatch.chdir(tmp_path)
            name = "ssh:box1"
        yield backends.load(name)


@pytest.mark.parametrize("name", backends.names())
def test_a_backend_is_called_like_its_file(name: str) -> None:
    """Its name is its file's or its package's name."""
    assert backends.load(name).name == name


def test_a_submission_is_found_again_and_has_a_state(backend: Backend, intent: Intent) -> None:
    """What was submitted can be found by its intent, asked for, followed and stopped."""
    submission = backend.submit(intent)
    assert backend.find(intent) == submission
    assert submission.backend == backend.name
    assert submission.slug == intent.slug
    [status] = backend.status([submission])
    assert status.state in (State.QUEUED, State.RUNNING, State.DONE)
    for block in backend.follow_log(submission):
        assert isinstance(block, bytes)
    assert isinstance(backend.account(), str)
    assert isinstance(backend.quota(), list)
    assert isinstance(backend.active(), list)
    assert all(finding.what and finding.detail for finding in backend.checks())
    backend.stop(submission)


def test_looking_before_submitting_makes_one_submission(backend: Backend, intent: Intent) -> None:
    """A host that was killed and looks for its push gets what it had."""
    first = backend.find(intent) or backend.submit(intent)
    assert (backend.find(intent) or backend.submit(intent)) == first


def test_an_unknown_backend_lists_the_known_ones() -> None:
    """A wrong name is a usage error with the right ones in its hint."""
    with pytest.raises(UsageError) as caught:
        backends.load("slrum")
    assert "local" in caught.value.hint


# --- local ------------------------------------------------------------------------------------------------


def test_a_local_run_brings_back_log_and_outputs(intent: Intent, tmp_path: Path) -> None:
    """The log has Kaggle's form with both streams, the outputs are the working folder's files."""
    backend = Local()
    submission = backend.submit(intent)
    assert over(backend, submission) == Status(State.DONE)
    backend.fetch_log(submission, tmp_path / "log.raw")
    [file] = backend.list_outputs(submission)
    records = json.loads((tmp_path / "log.raw").read_text(encoding="utf-8"))
    written = {"stdout": "", "stderr": ""}
    for record in records:
        written[record["stream_name"]] += record["data"]
    assert written == {"stdout": "hello\n", "stderr": "wörld\n"}
    assert (file.name, file.size) == ("result.txt", 2)
    assert b"".join(backend.fetch_output(submission, file)) == b"42"
    assert b"".join(backend.follow_log(submission)) == (tmp_path / "log.raw").read_bytes()


def test_the_log_can_be_followed_while_it_grows(accepted: Submission) -> None:
    """A follower sees the first line while the program still runs."""
    for block in Local().follow_log(accepted):
        if b"up" in block:
            break
    assert Local().status([accepted])[0].state is State.RUNNING


def test_stop_ends_the_program_and_says_so(accepted: Submission) -> None:
    """A stopped run is cancelled, and its program is gone."""
    child = json.loads((runs_root() / accepted.reference / "local" / "started.json").read_text())["child"]
    Local().stop(accepted)
    assert over(Local(), accepted).state is State.CANCELLED
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_a_program_that_fails_is_failed_with_its_status() -> None:
    """The exit status of the kernel stands in the message."""
    backend = Local()
    status = over(backend, backend.submit(make_intent("raise SystemExit(7)")))
    assert status.state is State.FAILED
    assert "status 7" in status.message


def test_a_deadline_is_the_supervisors_to_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that ignores its own limit is ended, with whatever it left running."""
    monkeypatch.setattr("builder.supervisor.GRACE_S", 0.5)
    from builder.supervisor import Desk, supervise

    script = "import subprocess, time\nsubprocess.Popen(['sleep', '600'])\ntime.sleep(600)"
    desk = Desk(make_intent(script).folder)
    desk.lock.parent.mkdir()
    previous = signal.getsignal(signal.SIGTERM)
    try:
        supervise(desk, ["python3", str(desk.part / "kernel.py")], timeout_s=0.5)
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert json.loads(desk.ended.read_text())["reason"] == "deadline"
    assert json.loads(desk.log.read_text()) == []


def test_a_killed_supervisor_is_lost_not_running(accepted: Submission) -> None:
    """A run whose supervisor was killed is never shown as running."""
    started = json.loads((runs_root() / accepted.reference / "local" / "started.json").read_text())
    os.kill(started["pid"], signal.SIGKILL)
    assert over(Local(), accepted).state is State.LOST
    os.killpg(started["child"], signal.SIGKILL)


def test_a_supervisor_that_cannot_start_says_why(intent: Intent) -> None:
    """An interpreter that does not exist is one sentence, not a hang."""
    with pytest.raises(InfrastructureError, match="no-such-python"):
        Local("no-such-python").submit(intent)


def test_an_interpreter_without_torch_is_refused(intent: Intent, tmp_path: Path) -> None:
    """What cannot run here is one sentence with the way out, before anything starts."""
    python = tmp_path / "bare-python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')  # no site-packages
    python.chmod(0o755)
    with pytest.raises(RefusedHereError, match="has no torch") as caught:
        Local(str(python)).submit(intent)
    assert "pip install torch" in caught.value.hint
    assert not (intent.folder / "local" / "started.json").exists()


def test_a_closed_terminal_does_not_end_the_run(accepted: Submission) -> None:
    """The supervisor is in a session of its own."""
    pid = json.loads((runs_root() / accepted.reference / "local" / "started.json").read_text())["pid"]
    assert os.getsid(pid) != os.getsid(0)


# --- manual -----------------------------------------------------------------------------------------------


def test_a_manual_run_waits_and_says_what_to_do(intent: Intent) -> None:
    """Three lines name the kernel, the command there and the import here."""
    backend = Manual()
    [status] = backend.status([backend.submit(intent)])
    assert status.state is State.QUEUED
    assert len(status.message.splitlines()) == 3
    assert str(intent.folder / "kernel.py") in status.message
    assert "ferry import 20261130-101112-abcdef" in status.message


def test_a_manual_run_has_no_log_to_fetch(intent: Intent, tmp_path: Path) -> None:
    """Fetching says that the log comes back by hand, and leaves no file."""
    backend = Manual()
    with pytest.raises(FerryError, match="by hand"):
        backend.fetch_log(backend.submit(intent), tmp_path / "log.raw")
    assert not (tmp_path / "log.raw").exists()
