"""One run dealt over several places at once: the same rows as in one place, whoever is killed on the way."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from builder import places, runs
from builder.errors import Exit
from builder.runs import Run
from tests.command import ROOT, run_ferry
from tests.service.ferrying import ferry, only_run, states
from tests.service.kaggle.server import KaggleServer

# A host on which a part begins at once everywhere and Kaggle is asked often; it dies at the step it is given.
HOST = """
import os, signal, sys
from dataclasses import replace
from builder import places
from builder.backends.kaggle import Kaggle
from builder.runs import Run
from builder.__main__ import main
places.START_S.update(kaggle=1.0, local=1.0)
limits = Kaggle.limits
Kaggle.limits = lambda self: replace(limits(self), poll_s=1.0)
name, argument = sys.argv.pop(1), sys.argv.pop(1)
if name:
    was = getattr(Run, name)
    def step(self, *args):
        if any(argument in str(one) for one in args):
            os.kill(os.getpid(), signal.SIGKILL)
        return was(self, *args)
    setattr(Run, name, step)
main()
"""
PLACES = ("--backend", "kaggle,local", "--accelerator", "cpu", "--no-rehearsal")
SWEEP = ("--suite", "smoke", "--shapes", "1-4", "--route", "eager")
# Ids, times and where it ran are a run's own; all else is the same wherever a case runs.
SAME = (
    "case_id",
    "status",
    "max_abs",
    "max_rel",
    "gate_share",
    "failed_elements",
    "total_elements",
    "weight_seeds",
)


def rows(run: Run) -> list[dict[str, str]]:
    """The run's results."""
    with (run.folder / "results.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def figures(run: Run) -> list[tuple[str, ...]]:
    """What must not depend on the place."""
    return [tuple(row[name] for name in SAME) for row in rows(run)]


def host(name: str, argument: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `ferry` on such a host; with a name it dies with -9 when that is called with the argument."""
    command = [sys.executable, "-c", HOST, name, argument, *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.timeout(900)
def test_two_places_and_two_kills_give_the_rows_of_one(kaggle_environment: KaggleServer) -> None:
    """A sweep over Kaggle and this machine, its host killed twice, ends as the local run does."""
    first = host("write_submission", "kaggle", "run", *SWEEP, *PLACES)
    assert first.returncode == -signal.SIGKILL, first.stderr
    run = only_run()
    second = host("record", "fetched", "pull", run.id)
    assert second.returncode == -signal.SIGKILL, second.stderr
    pulled = host("", "", "pull", run.id)
    assert pulled.returncode == 0, pulled.stderr
    assert run_ferry("run", *SWEEP).returncode == 0
    assert figures(run) == figures(runs.all_runs()[0])
    assert run.is_finished
    slugs = [kernel.slug for kernel in kaggle_environment.kernels.kernels]
    assert len(slugs) == len(set(slugs)) == len(kaggle_environment.sessions), "a part was submitted twice"
    assert {run.part_spec(part).backend for part in run.parts()} == {"kaggle", "local"}
    assert len({row["part"] for row in rows(run)}) > 1


@pytest.fixture
def even(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part begins at once everywhere, so that even a small sweep is worth several."""
    monkeypatch.setattr(places, "START_S", {"kaggle": 1.0, "local": 1.0})


@pytest.mark.usefixtures("even")
def test_a_refused_place_leaves_its_cases_to_the_others(hurried: KaggleServer) -> None:
    """Quota that is used up closes a place; the run ends elsewhere, and its rows are whole."""
    hurried.knobs.refusal = "Maximum weekly GPU quota of 30.00 hours reached."
    done = ferry("run", "--shapes", "1,2", "--route", "eager", *PLACES)
    assert done.code == 0, done.err
    assert "kaggle takes no part" in done.err
    run = only_run()
    assert "withdrawn" in {state for part in run.parts() for state in states(run, part)}
    assert [row["status"] for row in rows(run)] == ["passed", "passed"]
    assert run.is_finished


def test_no_place_takes_it(hurried: KaggleServer) -> None:
    """When no place takes any part the reason is told, with its exit code, and nothing is left to come."""
    hurried.knobs.refusal = "Maximum weekly GPU quota of 30.00 hours reached."
    words = ("--backend", "kaggle", "--accelerator", "cpu", "--parts", "2", "--no-rehearsal")
    done = ferry("run", "--shapes", "1,2", "--route", "eager", *words)
    assert done.code == Exit.CAPACITY
    assert only_run().is_finished


def test_a_budget_leaves_cases_out_and_says_so_before(hurried: KaggleServer) -> None:
    """What does not fit is named first, is `not_run` in the end, and the exit code says incomplete."""
    done = ferry("run", "--shapes", "1-3", "--route", "eager", "--budget", "40s")
    assert done.code == Exit.INCOMPLETE
    assert done.err.index("does not fit the budget") < done.err.index("part 1: ")
    statuses = [row["status"] for row in rows(only_run())]
    assert set(statuses) == {"passed", "not_run"}
    assert "not sent: it does not fit the budget" in rows(only_run())[-1]["error"]


@pytest.mark.usefixtures("even")
def test_stop_ends_every_part(kaggle_environment: KaggleServer) -> None:
    """`ferry stop` ends the dealing and every part, and a later pull deals nothing more."""
    kaggle_environment.knobs.hold = True
    words = ("--backend", "kaggle", "--accelerator", "cpu", "--parts", "2", "--no-rehearsal")
    assert ferry("push", "--suite", "smoke", "--route", "eager", *words).code == 0
    run = only_run()
    assert len(kaggle_environment.sessions) == 2
    assert "part 2 on kaggle" in ferry("status").err
    assert ferry("stop", "--yes").code == 0
    assert all(session.kernel.deleted for session in kaggle_environment.sessions)
    done = ferry("pull", run.id)
    assert done.code == Exit.INCOMPLETE
    assert len(kaggle_environment.sessions) == 2
    assert Path(run.folder).exists()
