"""`ferry` as people type it, to a machine over ssh and back, with the host killed on the way."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from builder import runs
from tests.command import ROOT, run_ferry
from tests.service.sshd.backing import until
from tests.service.sshd.server import Sshd

TO_BOX1 = ("--backend", "ssh:box1", "--accelerator", "cpu", "--no-rehearsal")
SHORT = ("--route", "sdpa", "--warmup", "0", "--repeats", "1", "--rounds", "1")
SUITE = (*TO_BOX1, "--suite", "official-small", *SHORT)


@pytest.fixture
def there(box1: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where runs of a project of the test's own lie on the machine."""
    monkeypatch.chdir(tmp_path)
    folder = box1.there / tmp_path.name
    box1.project(tmp_path, folder=str(folder))
    return folder


def killed_when(condition: Callable[[], bool], *arguments: str) -> None:
    """Run a command of `ferry`, and kill it with -9 as soon as a condition holds."""
    process = subprocess.Popen(
        [sys.executable, "-m", "builder", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until(condition, 120)
    process.kill()
    process.wait()


def rows() -> list[dict[str, str]]:
    """The rows of the only run."""
    [run] = runs.all_runs()
    with (run.folder / "results.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.timeout(900)
def test_a_suite_crosses_though_the_host_dies_twice(there: Path, box1: Sshd) -> None:
    """Killed before the reply and as it follows, the host loses no case and starts none twice."""
    killed_when(lambda: bool(list(there.glob("*/keeper.json"))), "push", *SUITE)
    [run] = runs.all_runs()
    until(lambda: bool(list(there.glob("*/log.raw"))), 120)
    [log] = there.glob("*/log.raw")
    killed_when(lambda: b'"kind":"case"' in log.read_bytes(), "pull", run.id)
    os.kill(box1.connection(), signal.SIGKILL)
    pulled = run_ferry("pull", run.id)
    assert pulled.returncode == 0, pulled.stderr
    found = rows()
    assert [row["case_id"] for row in found] == [case.id for case in run.spec.cases]
    assert {row["status"] for row in found} == {"passed"}
    assert {row["attempt"] for row in found} == {"1"}
    assert len(list(there.glob("ferry-*"))) == 1
    states = [entry.state for entry in run.journal()]
    assert states[:2] == ["intent", "queued"]
    assert states[-3:] == ["done", "fetched", "parsed"]


def test_a_run_can_be_stopped_and_says_what_it_had(there: Path) -> None:
    """Stop returns when nothing runs any more, and a pull brings the rows there are."""
    pushed = run_ferry("push", *SUITE)
    assert pushed.returncode == 0, pushed.stderr
    [run] = runs.all_runs()
    stopped = run_ferry("stop", run.id)
    assert stopped.returncode == 0, stopped.stderr
    [folder] = there.glob("ferry-*")
    assert (folder / "ended.json").exists()
    pulled = run_ferry("pull", run.id)
    assert pulled.returncode == 4, pulled.stderr
    assert len(rows()) == len(run.spec.cases)


def test_a_wrong_host_key_is_exit_2(there: Path, box1: Sshd) -> None:
    """What only a person can mend is said before anything is sent."""
    (box1.home / "known_hosts").write_text("")
    try:
        pushed = run_ferry("push", *TO_BOX1, "--shapes", "1", "--route", "eager")
    finally:
        box1.trust()
    assert pushed.returncode == 2
    assert "host key of box1 is not known here" in pushed.stderr
    assert [run.state(1) for run in runs.all_runs()] == ["refused"]
    assert not there.exists()
