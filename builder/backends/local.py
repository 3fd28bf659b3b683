"""This machine: the kernel in its own session and folder, owned by a detached supervisor.

| files in `local/`            | state     |
| `ended.json`, status 0       | done      |
| `ended.json`, stopped        | cancelled |
| `ended.json`, else           | failed    |
| the lock is held             | running   |
| none of these                | lost      |
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from builder.backends import Finding, Intent, Limits, OutputFile, State, Status, Submission, Unmetered
from builder.errors import DeniedError, InfrastructureError, RefusedHereError
from builder.rehearsal import has_torch
from builder.runs import atomic_write, place, read_json, runs_root
from builder.supervisor import Desk, Ended, Started

_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from builder.supervisor import main; main()"
_GET_TORCH = "pip install torch, or let FERRY_PYTHON name an interpreter that has it"


class Local(Unmetered):
    """Runs kernels with `python`: the interpreter of gpuferry itself unless `FERRY_PYTHON` names another."""

    name = "local"

    def __init__(self, python: str | None = None) -> None:
        self.python = python or os.environ.get("FERRY_PYTHON") or sys.executable

    def submit(self, intent: Intent) -> Submission:
        """Start the supervisor, unless it is there already, and return once the kernel runs.

        Raises RefusedHereError when the interpreter has no torch, InfrastructureError when it cannot start.
        """
        self._refuse_without_torch()
        desk = Desk(intent.folder.resolve())
        desk.lock.parent.mkdir(exist_ok=True)
        home = str(Path(__file__).parent.parent.parent)
        kernel = str(intent.folder.resolve() / "kernel.py")
        arguments = [home, str(desk.part), kernel, str(intent.timeout_s), self.python]
        complaints = desk.part / "local" / "supervisor.err"
        with complaints.open("ab") as stderr:
            supervisor = subprocess.Popen(
                [sys.executable, "-P", "-c", _START, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
        assert supervisor.stdout is not None
        with supervisor, supervisor.stdout as answer:
            if not answer.readline() and not desk.started.exists():
                tail = complaints.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
                raise InfrastructureError(
                    f"the local run did not start: {''.join(tail) or 'no reason given'}", f"see {complaints}"
                )
        return _submission(intent)

    def checks(self) -> Iterator[Finding]:
        """Look whether the interpreter of local runs has torch."""
        try:
            found = has_torch(self.python)
        except OSError as problem:
            yield Finding(
                "python", f"{self.python} cannot be started: {problem.strerror}", "see FERRY_PYTHON"
            )
            return
        yield Finding(
            "torch", f"{self.python} {'has' if found else 'has no'} torch", "" if found else _GET_TORCH, True
        )

    def _refuse_without_torch(self) -> None:
        try:
            found = has_torch(self.python)
        except OSError as problem:
            raise InfrastructureError(
                f"the local run did not start: {problem}", "see FERRY_PYTHON"
            ) from problem
        if not found:
            raise RefusedHereError(
                f"{self.python} has no torch, so no case can run on this machine",
                _GET_TORCH,
            )

    def find(self, intent: Intent) -> Submission | None:
        """A supervisor that has started, or is about to, was accepted."""
        desk = Desk(intent.folder)
        return _submission(intent) if desk.started.exists() or _is_held(desk.lock) else None

    def status(self, submissions: Sequence[Submission]) -> list[Status]:
        """Read each submission's files; see the table above."""
        return [_status(_desk(submission)) for submission in submissions]

    def follow_log(self, submission: Submission) -> Iterator[bytes]:
        """Yield the log as it grows; it ends when the supervisor has ended."""
        desk = _desk(submission)
        if not desk.log.exists():
            return
        with desk.log.open("rb") as stream:
            while True:
                over = _status(desk).state.is_over
                block = stream.read(1 << 20)
                if over and not block:
                    return
                yield block

    def fetch_log(self, submission: Submission, target: Path) -> None:
        """Link the log, which nobody writes to any more, under its name."""
        source = _desk(submission).log
        if not source.exists():
            raise DeniedError(f"the local run left no log: {source} is not there")
        try:
            os.link(source, target)
        except OSError:  # a file system without links
            atomic_write(target, source.read_bytes())

    def list_outputs(self, submission: Submission) -> Iterator[OutputFile]:
        """Yield the working folder's files."""
        work = _desk(submission).work
        for path in sorted(work.rglob("*")):
            if path.is_file():
                yield OutputFile(path.relative_to(work).as_posix(), path.stat().st_size)

    def fetch_output(self, submission: Submission, file: OutputFile) -> Iterator[bytes]:
        """Yield a file's bytes."""
        try:
            with (_desk(submission).work / file.name).open("rb") as stream:
                while block := stream.read(1 << 20):
                    yield block
        except OSError as problem:
            raise InfrastructureError(f"{file.name} cannot be read: {problem.strerror}") from problem

    def stop(self, submission: Submission) -> None:
        """Ask the supervisor to end the run; it closes log and records first."""
        desk = _desk(submission)
        if _is_held(desk.lock) and desk.started.exists():
            os.kill(read_json(Started, desk.started).pid, signal.SIGTERM)

    def limits(self) -> Limits:
        """One run at a time, no size limit that matters, and nothing is lost by simply trying."""
        return Limits(rehearse=False, streams=True)


def _submission(intent: Intent) -> Submission:
    return Submission(Local.name, place(intent.folder), intent.slug)


def _desk(submission: Submission) -> Desk:
    return Desk(runs_root() / submission.reference)


def _is_held(lock: Path) -> bool:
    if not lock.exists():
        return False
    with lock.open("a") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def _status(desk: Desk) -> Status:
    held = _is_held(desk.lock)  # asked first: the supervisor writes its end before it lets go
    if desk.ended.exists():
        end = read_json(Ended, desk.ended)
        if end.reason == "stopped":
            return Status(State.CANCELLED, "stopped")
        if end.returncode == 0:
            return Status(State.DONE)
        return Status(State.FAILED, f"the kernel ended with status {end.returncode} ({end.reason})")
    if held:
        return Status(State.RUNNING)
    return Status(State.LOST, "its supervisor is gone and left no end")


BACKEND = Local
