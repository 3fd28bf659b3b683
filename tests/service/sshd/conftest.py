"""What the tests of ssh share: one sshd a worker and user, and a private folder for connections."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder.backends import Submission
from builder.backends.ssh import Ssh
from builder.backends.ssh.calls import Profile
from builder.commands import Here
from tests.service.sshd.backing import Making
from tests.service.sshd.server import Sshd, hang_up, sshd
from tests.service.sshd.wire import Wire, wire


@pytest.fixture(scope="session")
def machine() -> Iterator[Sshd]:
    """A machine that serves whoever runs the tests."""
    with sshd() as started:
        yield started


@pytest.fixture(scope="session")
def strange_machine() -> Iterator[Sshd]:
    """A machine that serves a user without rights; only root can start it."""
    if os.getuid():
        pytest.skip("only root can serve another user; this one has no rights anyway")
    if subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("this root may not make a mount namespace, in which the other user is known")
    with sshd(stranger=True) as started:
        yield started


@pytest.fixture(autouse=True)
def _own_connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Shared connections end with the test: their sockets are in a folder that is gone afterwards."""
    folder = tempfile.mkdtemp(prefix="xdg-", dir="/tmp")
    monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
    yield
    hang_up(Path(folder))
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def box1(machine: Sshd, monkeypatch: pytest.MonkeyPatch) -> Sshd:
    """The machine, known as `box1` to this process's and its children's ssh."""
    for name, value in machine.environment.items():
        monkeypatch.setenv(name, value)
    return machine


@pytest.fixture
def frail(box1: Sshd) -> Iterator[Wire]:
    """A wire to the machine, which is called `frail` where it goes through this."""
    with wire(box1.port) as laid:
        box1.name("frail", laid.port)
        yield laid


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Making]:
    """Makes backends whose machine is this one; what they have started is stopped at the end."""
    made: list[Ssh] = []

    def make(**keys: object) -> Ssh:
        profile = Profile(**{"python": sys.executable, "folder": str(tmp_path / "there"), **keys})  # type: ignore[arg-type]
        made.append(Ssh("box1", profile, lambda _: Here()))
        return made[-1]

    yield make
    for folder in (tmp_path / "there").glob("ferry-*"):
        made[0].stop(Submission("ssh:box1", f"box1:{folder}", folder.name))
