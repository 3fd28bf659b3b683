"""Where the kernel is root, the worker is another user: it reaches nobody else's memory, leaves nothing."""

import json
import os
import shutil
import site
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from harness import isolation
from harness.isolation import Identity, isolate
from tests.kernel.driving import Kernel, Log, case, order, unpack

PRYING, SOUND = case("pries"), case("tells_all", "t01")
PROGRAM = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
SUFFERED = {"memory", "environment", "stdout", "signal", "harness"}


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    """A bundle where another user may read it."""
    base = Path(tempfile.mkdtemp(prefix="ferry-test-"))
    base.chmod(0o711)
    yield unpack(base)
    shutil.rmtree(base)


@pytest.fixture(scope="module")
def program(kernel: Kernel) -> str:
    """A Python that another user can run, with torch."""
    for program in (sys.executable, PROGRAM):
        environment = {"PYTHONPATH": os.pathsep.join([str(kernel.root), *site.getsitepackages()])}
        found = isolate("cpu", environment, kernel.root / "home", kernel.root, program)
        if isinstance(found, Identity):
            return program
    pytest.skip(f"no other user can run this machine's Python: {found}")


@pytest.fixture(scope="module")
def log(kernel: Kernel, program: str) -> Log:
    """A prying case and a plain one."""
    return kernel.run(order(PRYING, SOUND), program=program)


def test_rows_say_that_the_worker_was_isolated(log: Log) -> None:
    """Both cases pass under another user, and their rows say so."""
    assert [log.done[asked.id].status for asked in (PRYING, SOUND)] == ["passed", "passed"], log.chatter
    assert [log.done[asked.id].flags["isolated"] for asked in (PRYING, SOUND)] == ["yes", "yes"]


def test_nothing_of_the_drivers_is_in_reach(log: Log) -> None:
    """Memory, environment, output and files of the driver are refused; its own folder it may write."""
    seen = json.loads(log.done[PRYING.id].route_note)
    assert {name: seen[name] for name in SUFFERED} == dict.fromkeys(SUFFERED, "PermissionError")
    assert seen["outputs"] == []
    assert seen["own folder"] == 1


def test_a_child_without_a_trace_dies_with_its_worker(log: Log) -> None:
    """A process in another session whose environment says nothing is gone before the run ends."""
    assert log.code == 0
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(path.read_bytes())
        except OSError:
            continue
    assert not [command for command in commands if b"86397" in command]


def test_the_run_is_sealed(log: Log) -> None:
    """Everything of the run is dead at its end, so that the key is revealed."""
    assert len(log.end.key) == 64


def test_why_there_is_no_isolation_is_said(tmp_path: Path) -> None:
    """Where another user could not live, the reason is one short text."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    found = isolate("cpu", {}, closed / "home", closed)
    assert isinstance(found, str)
    assert found and "\n" not in found and ";" not in found


TAKES = "from harness.isolation import take; import sys; print(take(), flush=True); sys.stdin.read()"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has users to give")
def test_two_drivers_take_two_users() -> None:
    """A user that one driver has taken, and has not run anything as yet, is no other's until its end."""
    command = [sys.executable, "-c", TAKES]
    root = Path(isolation.__file__).parents[1]
    with (
        subprocess.Popen(command, cwd=root, stdin=PIPE, stdout=PIPE) as first,
        subprocess.Popen(command, cwd=root, stdin=PIPE, stdout=PIPE) as second,
    ):
        assert first.stdout and second.stdout and first.stdin and second.stdin
        users = [int(driver.stdout.readline()) for driver in (first, second) if driver.stdout]
        first.stdin.close()
        first.wait()
        third = subprocess.run(command, cwd=root, input=b"", stdout=PIPE, check=True)
        second.stdin.close()
    assert users[0] != users[1]
    assert int(third.stdout) not in users[1:]


KEEPS = """
import sys
{source}
if {keeps}:
    keep_to_itself()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("keeps", [True, False])
def test_a_driver_that_is_not_root_hides_from_its_own_user(keeps: bool) -> None:
    """Another process of the same user cannot read the environment of one that keeps to itself."""
    as_user: dict[str, Any] = {"cwd": "/"}
    if os.geteuid() == 0:
        as_user |= {"user": 64_999, "group": 64_999, "extra_groups": []}
    source = Path(isolation.__file__).read_text().replace("from __future__ import annotations", "")
    code = KEEPS.format(source=source, keeps=keeps)
    with subprocess.Popen([PROGRAM, "-c", code], stdin=PIPE, stdout=PIPE, **as_user) as driver:
        assert driver.stdin and driver.stdout and driver.stdout.readline() == b"ready\n"
        read = [PROGRAM, "-c", f"open('/proc/{driver.pid}/environ', 'rb').read()"]
        done = subprocess.run(read, stderr=PIPE, check=False, **as_user)
        driver.stdin.close()
    assert (b"PermissionError" in done.stderr) is keeps
