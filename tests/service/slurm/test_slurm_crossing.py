"""`ferry` as a user without rights beside a real Slurm."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from builder.backends.slurm.cluster import Job
from builder.runs import Run
from tests.command import ROOT
from tests.service.slurm.conftest import until
from tests.service.slurm.crossing import ON_CPU, PROFILE, SHORT, rows
from tests.service.slurm.daemons import Cluster

pytestmark = pytest.mark.cluster


class Project:
    """A folder of the cluster's user with a profile, and `ferry` in it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.folder = cluster.folder / "project"
        self.folder.mkdir()
        profile = PROFILE.format(python=sys.executable, scratch="~/some jobs") + "requeue = true\n"
        (self.folder / "ferry.toml").write_text(profile)
        cluster.give(self.folder)

    def ferry(self, *words: str, code: int = 0) -> str:
        """Run a command of `ferry` as that user; return what it says."""
        done = subprocess.run(
            [*self.cluster.prefix, sys.executable, "-m", "builder", *words],
            cwd=self.folder,
            env={**self.cluster.environment, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    @property
    def run(self) -> Run:
        """The newest run."""
        return Run(max((self.folder / "runs").glob("2*")))


@pytest.fixture(scope="session")
def project(cluster: Cluster) -> Project:
    """A project on the cluster."""
    return Project(cluster)


def job_when(run: Run, word: str) -> Job:
    """Wait until a run's kernel has written an event with a word in it; return its job."""
    submission = run.submission(1)
    assert submission
    job = Job.of(submission.reference)
    events = Path(job.folder) / "1" / "work" / "ferry-events.jsonl"
    until(lambda: events.exists() and word in events.read_text(), 120.0)
    return job


def test_doctor_tries_a_profile_out(project: Project) -> None:
    """Slurm, its controller, each type and torch in a job are looked at, and what is wrong is named."""
    said = project.ferry("doctor", "--backend", "slurm:short")
    for line in (
        "sbatch: slurm",
        "cluster test answers",
        "--gres=gpu:t4:1 --partition=gpu: Job",
        "torch: torch ",
    ):
        assert line in said
    with (project.folder / "ferry.toml").open("a") as file:
        file.write('\n[backends.slurm.wrong]\npartition = "nowhere"\n')
    said = project.ferry("doctor", "--backend", "slurm:wrong", code=3)
    assert "Invalid partition" in said or "invalid partition" in said


def test_a_plan_says_when_a_job_would_begin(project: Project) -> None:
    """`ferry plan` asks sbatch itself, and submits nothing."""
    words = ("plan", "--backend", "slurm:short", "--shapes", "1")
    said = project.ferry(*words, "--accelerator", "t4")
    assert re.search(r"Slurm would begin at 2\d{3}-\S+ on n", said)
    assert "Slurm would refuse it" in project.ferry(*words, "--accelerator", "t4", "--devices", "3")


def test_a_requeued_run_has_each_row_once(project: Project) -> None:
    """A run whose job is begun anew half-way ends with all of its rows, those done before among them."""
    project.ferry("push", *ON_CPU, "--suite", "official-small", "--shapes", "1,2", *SHORT)
    run = project.run
    job = job_when(run, '"kind":"case"')
    answer = project.cluster.runner().run(["scontrol", "requeue", job.id], timeout_s=30)
    assert answer.code == 0, answer.complaint
    said = project.ferry("pull")
    assert "2 passed" in said
    found = rows(run)
    assert [row["status"] for row in found] == ["passed"] * 2
    assert [row["attempt"] for row in found] == ["1", "2"]


def test_stop_cancels_and_keeps_what_was_measured(project: Project) -> None:
    """`ferry stop` ends the job, and pull brings rows for what had not run yet, too."""
    project.ferry("push", *ON_CPU, "--suite", "official-small", *SHORT)
    job_when(project.run, '"kind":"started"')
    project.ferry("stop", project.run.id)
    said = project.ferry("pull", project.run.id, code=4)
    assert "cancelled" in said
    assert {row["status"] for row in rows(project.run)} <= {"not_run", "unknown", "passed"}


def test_a_card_that_a_profile_has_not_is_refused(project: Project) -> None:
    """A card that the profile has no type for is refused in the journal too, with the types that it has."""
    words = ("--backend", "slurm:short", "--accelerator", "a100", "--shapes", "1")
    assert "its types: t4" in project.ferry("push", *words, *SHORT, code=2)
    assert project.run.state(1) == "refused"


def test_a_held_run_says_why_and_can_be_given_up(project: Project) -> None:
    """A run that its partition will never start is held with the reason, and `ferry stop` cancels its job."""
    with (project.folder / "ferry.toml").open("a") as file:
        file.write(f'\n[backends.slurm.tight]\npartition = "short"\npython = "{sys.executable}"\n')
    words = ("--backend", "slurm:tight", "--accelerator", "cpu", "--shapes", "1", "--timeout", "30m")
    project.ferry("push", *words, *SHORT)
    until(lambda: "held" in project.ferry("status", project.run.id), 30.0)
    assert "the partition does not allow what it asks for" in project.ferry("status", project.run.id)
    project.ferry("stop", project.run.id)
    until(lambda: "cancelled" in project.ferry("status", project.run.id), 30.0)


def test_one_sweep_over_slurm_and_this_machine(project: Project) -> None:
    """Both places take parts of one run at once, and each case has one row, with its own part."""
    words = ("--backend", "local,slurm:short", "--accelerator", "cpu", "--suite", "official-small")
    said = project.ferry("run", *words, "--shapes", "1-4", *SHORT)
    assert "4 of 4 in all" in said
    found, run = rows(project.run), project.run
    assert [row["status"] for row in found] == ["passed"] * 4
    assert {run.part_spec(int(row["part"])).backend for row in found} == {"local", "slurm:short"}
    assert run.is_finished
