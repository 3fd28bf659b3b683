"""One cluster for all of these tests, and jobs on it."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from builder.backends import Intent, State, Status, Submission
from builder.backends.slurm import Slurm
from builder.backends.slurm.profile import Profile
from tests.service.slurm.daemons import Cluster, running

PROFILE = Profile(python=sys.executable, poll=0.5, types={"t4": "t4"})


@dataclass
class Jobs:
    """Jobs on a cluster, each a small program with a part's folder of its own."""

    cluster: Cluster
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def place(self, **changes: Any) -> Slurm:
        """The backend, with a profile of the test's own."""
        return Slurm(replace(PROFILE, **changes), "slurm:test", self.cluster.runner())

    def intent(self, program: str, accelerator: str = "cpu", **fields: Any) -> Intent:
        """A part whose kernel is a program."""
        number = next(self._numbers)
        part = self.cluster.folder / "parts" / str(number)
        part.mkdir(parents=True)
        (part / "kernel.py").write_text(program, encoding="utf-8")
        return Intent("20261130-101112-abcdef", number, f"ferry-test-{number}", part, accelerator, **fields)

    def submit(self, program: str, *extra: str, accelerator: str = "cpu", **fields: Any) -> Submission:
        """Submit a program, with further options of sbatch."""
        return self.place(extra=extra).submit(self.intent(program, accelerator, **fields))

    def status(self, submission: Submission) -> Status:
        """Where a job stands."""
        return self.place().status([submission])[0]

    def until(self, submission: Submission, *states: State, limit_s: float = 60.0) -> Status:
        """Wait until a job is in one of these states; fail when it is over in another."""
        until(lambda: (now := self.status(submission)).state in states or now.state.is_over, limit_s)
        now = self.status(submission)
        assert now.state in states, now
        return now

    def over(self, submission: Submission, limit_s: float = 60.0) -> Status:
        """Wait for a job's end."""
        until(lambda: self.status(submission).state.is_over, limit_s)
        return self.status(submission)

    def log(self, submission: Submission) -> str:
        """What a job has written."""
        target = self.cluster.folder / "fetched.log"
        self.place().fetch_log(submission, target)
        return target.read_text(encoding="utf-8")

    def scontrol(self, *words: str) -> None:
        """Do something that an administrator would."""
        answer = self.cluster.runner().run(["scontrol", *words], timeout_s=30)
        assert answer.code == 0, answer.complaint

    def folder(self, submission: Submission) -> Path:
        """A job's folder on the cluster."""
        return Path(submission.reference.partition(":")[2])


def until(condition: Callable[[], bool], limit_s: float = 60.0) -> None:
    """Poll until a condition holds; fail when it never does."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.1)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A Slurm whose jobs belong to a user without rights."""
    with running() as started:
        yield started


@pytest.fixture(scope="session")
def jobs(cluster: Cluster) -> Jobs:
    """Jobs on it."""
    return Jobs(cluster)


@pytest.fixture(scope="session")
def overdue(jobs: Jobs) -> Submission:
    """A job that is still running when its minute is up: begun with the session, for it takes so long."""
    return jobs.submit("import time\ntime.sleep(600)", "--time=1")
