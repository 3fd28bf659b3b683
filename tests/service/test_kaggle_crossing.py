"""The whole way to Kaggle and back as people type it: push, status, logs, pull, CSV."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from builder import runs
from builder.errors import Exit
from tests.command import run_ferry
from tests.service.kaggle.hardware import NOTHING, ONE_T4, P100, TWO_T4
from tests.service.kaggle.server import KaggleServer

ONE_CASE = ("--shapes", "1", "--route", "eager")


def push(*options: str) -> runs.Run:
    """Push to the T4s and return the run."""
    done = run_ferry("push", "--accelerator", "NvidiaTeslaT4", "--no-rehearsal", *options)
    assert done.returncode == 0, done.stderr
    [run] = runs.all_runs()
    return run


def rows(run: runs.Run) -> list[dict[str, str]]:
    """The run's results."""
    with (run.folder / "results.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "suite",
    [
        ("smoke", "--route", "eager", "--route", "sdpa"),  # compiling takes a minute
        ("official-small", "--warmup", "1", "--repeats", "2", "--rounds", "1"),
    ],
    ids=lambda suite: suite[0],
)
def test_a_suite_crosses_and_comes_back(kaggle_environment: KaggleServer, suite: tuple[str, ...]) -> None:
    """Both cards work, the log is followed, each planned case has a row, each step is in the journal."""
    kaggle_environment.knobs.hardware = TWO_T4
    run = push("--suite", *suite)
    assert run.id in run_ferry("status", run.id).stderr
    followed = run_ferry("logs", "-f", run.id)
    assert followed.returncode == 0, followed.stderr
    assert "[NbConvertApp] Writing" in followed.stdout, "the log was not followed to its end"
    pulled = run_ferry("pull", run.id)
    assert pulled.returncode == 0, pulled.stderr
    found = rows(run)
    assert len(found) == len(run.spec.cases)
    assert {row["status"] for row in found} == {"passed"}
    assert {row["device"] for row in found} == {"simulated Tesla T4"}
    assert {row["device_index"] for row in found} == {"0", "1"}
    assert {row["asked_accelerator"] for row in found} == {"Tesla T4"}
    states = [entry.state for entry in run.journal()]
    assert states[:2] == ["intent", "queued"]
    assert states[-3:] == ["done", "fetched", "parsed"]
    assert len(kaggle_environment.sessions) == 1
    assert (run.part(1) / "outputs" / "ferry-events.jsonl").exists()


@pytest.mark.parametrize(
    "hardware", [NOTHING, ONE_T4, P100], ids=["no card", "one card of two", "a card without code"]
)
def test_wrong_hardware_measures_nothing(kaggle_environment: KaggleServer, hardware: dict[str, Any]) -> None:
    """The first look ends the run: exit code 6, and each case is `not_run`."""
    kaggle_environment.knobs.hardware = hardware
    run = push(*ONE_CASE)
    pulled = run_ferry("pull", run.id)
    assert pulled.returncode == Exit.WRONG_ACCELERATOR, pulled.stderr
    assert {row["status"] for row in rows(run)} == {"not_run"}
    assert "Tesla T4" in pulled.stderr


def test_less_hardware_than_asked_for(kaggle_environment: KaggleServer) -> None:
    """One card where two were asked for is told in the same way, unless a mismatch is allowed."""
    kaggle_environment.knobs.hardware = ONE_T4
    run = push(*ONE_CASE, "--allow-accelerator-mismatch")
    pulled = run_ferry("pull", run.id)
    assert pulled.returncode == 0, pulled.stderr
    [row] = rows(run)
    assert "mismatch" in row["flags"]


def test_a_second_pull_asks_for_nothing_again(kaggle_environment: KaggleServer, tmp_path: Path) -> None:
    """What is here is not fetched again, and the rows are the same bytes."""
    kaggle_environment.knobs.hardware = TWO_T4
    run = push(*ONE_CASE)
    assert run_ferry("pull", run.id).returncode == 0
    before, asked = (run.folder / "results.csv").read_bytes(), len(kaggle_environment.requests)
    assert run_ferry("pull", run.id, cwd=tmp_path).returncode == 0
    assert (run.folder / "results.csv").read_bytes() == before
    assert len(kaggle_environment.requests) == asked
