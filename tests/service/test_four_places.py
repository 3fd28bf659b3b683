"""One sweep over four places at once, its host killed twice on the way: the rows of one place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder import runs
from tests.command import ROOT, run_ferry
from tests.service.ferrying import only_run
from tests.service.kaggle.server import KaggleServer
from tests.service.slurm.daemons import running
from tests.service.sshd.server import sshd
from tests.service.test_dealt_runs import HOST, SWEEP, figures

pytestmark = pytest.mark.cluster

PLACES = ("local", "slurm:short", "ssh:box1", "kaggle")
DEALT = ("--backend", ",".join(PLACES), "--accelerator", "cpu", "--no-rehearsal")
PROFILES = """
[backends.slurm.short]
python = "{python}"
scratch = "{folder}/scratch"
poll = "1s"
[backends.ssh.box1]
python = "{python}"
folder = "{folder}/there"
"""


@pytest.fixture
def project(
    kaggle_environment: KaggleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A folder whose ferry.toml knows a cluster and a machine, beside Kaggle's service."""
    with running(mine=True) as cluster, sshd() as machine:
        monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
        monkeypatch.setenv("FERRY_SSH", f"ssh -F {machine.config}")
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(machine.home))
        profiles = PROFILES.format(python=sys.executable, folder=cluster.folder)
        (tmp_path / "ferry.toml").write_text(profiles)
        yield tmp_path


def host(
    folder: Path, step: str, argument: str, *words: str, start_s: float = 1.0
) -> subprocess.CompletedProcess[str]:
    """Run `ferry` on a host that dies with -9 at a step, and for which a part elsewhere costs so little."""
    begin = f"from builder import places\nplaces.START_S.update(slurm={start_s}, ssh={start_s})\n"
    command = [sys.executable, "-c", begin + HOST, step, argument, *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.timeout(900)
def test_four_places_and_two_kills_give_the_rows_of_one(project: Path) -> None:
    """A sweep over this machine, Slurm, ssh and Kaggle ends as the local run does, each case once."""
    first = host(project, "write_submission", "slurm:short", "run", *SWEEP, *DEALT)
    assert first.returncode == -signal.SIGKILL, first.stderr
    run = only_run()
    second = host(project, "record", "fetched", "pull", run.id)
    assert second.returncode == -signal.SIGKILL, second.stderr
    pulled = host(project, "", "", "pull", run.id)
    assert pulled.returncode == 0, pulled.stderr
    assert {run.part_spec(part).backend for part in run.parts()} == {*PLACES}
    assert run_ferry("run", *SWEEP).returncode == 0
    assert figures(run) == figures(runs.all_runs()[0])
    assert run.is_finished


def test_a_sweep_over_a_cluster_is_a_job_array(project: Path) -> None:
    """Parts that a cluster has room for at once go there as elements of one job."""
    words = ("--backend", "slurm:short", "--parts", "2", "--accelerator", "cpu", "--no-rehearsal")
    done = host(project, "", "", "run", "--shapes", "1,2", "--route", "eager", *words, start_s=0.01)
    assert done.returncode == 0, done.stderr
    run = only_run()
    accepted = [run.submission(part) for part in run.parts()]
    assert [one.reference.partition(":")[0] for one in accepted if one] == ["2_0", "2_1"]  # 1 was the plan's
    assert [status for _, status, *_ in figures(run)] == ["passed"] * 2
