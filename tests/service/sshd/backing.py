"""What the tests of the backend share: parts with canned kernels, and waiting for what they come to."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from builder.backends import Backend, Intent, State, Status, Submission
from builder.backends.ssh import Ssh
from builder.runs import runs_root

Making = Callable[..., Ssh]

FOREVER = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"


def part(program: str, number: int = 1, **more: object) -> Intent:
    """Put a kernel into a part's folder of its own."""
    run = f"20261130-101112-{number:06x}"
    folder = runs_root() / run / "parts" / "1"
    folder.mkdir(parents=True)
    (folder / "kernel.py").write_text(program, encoding="utf-8")
    return Intent(run, 1, f"ferry-{run}-1", folder, **more)  # type: ignore[arg-type]


def until(condition: Callable[[], bool], limit_s: float = 60.0) -> None:
    """Poll until a condition holds; fail when it never does."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)


def until_state(backend: Backend, submission: Submission, state: State) -> Status:
    """Wait until a submission is in a state; fail when it ends in another."""
    now = Status(State.UNKNOWN)

    def is_there() -> bool:
        nonlocal now
        [now] = backend.status([submission])
        assert now.state is state or not now.state.is_over, now
        return now.state is state

    until(is_there)
    return now


def folder_of(submission: Submission) -> Path:
    """Return a run's folder on its machine, which is this one."""
    return Path(submission.reference.partition(":")[2])


def started(backend: Ssh, intent: Intent) -> Submission:
    """Submit a part, and return once its kernel has said something."""
    submission = backend.submit(intent)
    until_state(backend, submission, State.RUNNING)
    until(lambda: (folder_of(submission) / "log.raw").stat().st_size > 0)
    return submission


def said(submission: Submission) -> list[str]:
    """The words of a run's log."""
    return (folder_of(submission) / "log.raw").read_text().split()
