"""`ferry` through ssh to the login node of a real Slurm, as whoever runs the tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder import runs
from tests.command import run_ferry
from tests.service.slurm.crossing import ON_CPU, PROFILE, SHORT, rows
from tests.service.slurm.daemons import running
from tests.service.sshd.server import Sshd, sshd

pytestmark = pytest.mark.cluster


@pytest.fixture
def login_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    """A cluster of one's own that only its login node can reach, and a project that knows that node."""
    with running(mine=True) as cluster:
        settings = f"SetEnv SLURM_CONF={cluster.environment['SLURM_CONF']}\n"
        with sshd(settings=settings) as machine:
            monkeypatch.setenv("FERRY_SSH", f"ssh -F {machine.config}")
            monkeypatch.setenv("XDG_RUNTIME_DIR", str(machine.home))
            monkeypatch.setenv("FERRY_RUNS", str(tmp_path / "runs"))
            profile = PROFILE.format(python=sys.executable, scratch=cluster.folder / "scratch")
            (tmp_path / "ferry.toml").write_text(f'{profile}host = "box1"\n')
            yield machine


@pytest.mark.timeout(900)
def test_official_small_through_a_login_node(login_node: Sshd, tmp_path: Path) -> None:
    """The whole suite goes to the cluster through ssh, and every row comes back passed."""
    done = run_ferry("push", *ON_CPU, "--suite", "official-small", *SHORT, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    [run] = runs.all_runs()
    done = run_ferry("pull", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [row["status"] for row in rows(run)].count("passed") == len(run.spec.cases) == 14
