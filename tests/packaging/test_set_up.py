"""`make` and `.ci/set-up`: one clear sentence when they cannot, and no installing when there is no need."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.packaging.environments import make_environment

ROOT = Path(__file__).parents[2]
Result = subprocess.CompletedProcess[str]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What `.ci/set-up` reads, in a folder with spaces in its name."""
    folder = tmp_path / "a path  with spaces"
    for name in (".ci/set-up", "pyproject.toml", "tests/constraints.txt", "Makefile"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write an executable shell script that stands in for a Python."""

    def write(name: str, body: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    return write


def set_up(checkout: Path, python: Path | str, *extras: str) -> Result:
    """Run it as `make` does."""
    env = {"PATH": "/usr/bin:/bin", "PYTHON": str(python)}
    command = ["sh", str(checkout / ".ci/set-up"), *(extras or ("torch",))]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def test_missing_python_is_named(checkout: Path) -> None:
    """A Python that does not exist is refused in one sentence that says how to name another."""
    done = set_up(checkout, "python9")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "python9" in done.stderr
    assert "make PYTHON=" in done.stderr


def test_old_python_is_refused(checkout: Path, program: Callable[[str, str], Path]) -> None:
    """A Python older than 3.11 is refused in one sentence that names its version."""
    done = set_up(checkout, program("old python", 'test "$1" = --version && echo Python 3.9.2'))
    assert done.returncode == 2
    assert done.stderr.startswith("Python 3.9.2 is too old: gpuferry needs 3.11")
    assert done.stderr.count("\n") == 1


def test_python_without_venv_is_refused(checkout: Path, program: Callable[[str, str], Path]) -> None:
    """A Python that cannot make environments is refused with the package that mends it."""
    done = set_up(checkout, program("python", 'case "$2" in *ensurepip*) exit 1;; esac'))
    assert done.returncode == 2
    assert "apt install python3-venv" in done.stderr
    assert done.stderr.count("\n") == 1


def test_nothing_is_installed_twice(
    checkout: Path, program: Callable[[str, str], Path], tmp_path: Path
) -> None:
    """The installer is called once for each extra and each state of the project's requirements."""
    calls = tmp_path / "calls"
    program("a path  with spaces/.venv/bin/python", f'test "$1" = -m && echo "$*" >>"{calls}"; exit 0')
    installed: list[int] = []
    for extras in (("torch",), ("torch",), ("torch", "dev"), ("torch", "dev"), ("torch",)):
        assert set_up(checkout, "python9", *extras).returncode == 0
        installed.append(len(calls.read_text().splitlines()))
    assert installed == [1, 1, 2, 2, 2]
    assert calls.read_text().splitlines()[1].endswith("-e .[dev]")
    (checkout / "tests/constraints.txt").write_text("torch==2.14.0\n")
    assert set_up(checkout, "python9", "torch").returncode == 0
    assert len(calls.read_text().splitlines()) == 3


def test_failed_installation_is_tried_again(checkout: Path, program: Callable[[str, str], Path]) -> None:
    """A failed installation is said in plain words and leaves no mark of success behind."""
    program("a path  with spaces/.venv/bin/python", 'test "$1" != -m')
    for _ in range(2):
        done = set_up(checkout, "python9")
        assert done.returncode == 2
        assert "pip could not install gpuferry[torch]" in done.stderr


def test_make_lists_its_goals(checkout: Path) -> None:
    """`make` with no goal lists every goal that is meant for people, also in a folder with spaces."""
    listed = subprocess.run(["make"], cwd=checkout, capture_output=True, text=True, check=True).stdout
    goals = [line.split()[1] for line in listed.splitlines()]
    assert goals == [
        "help",
        "run",
        "test",
        "test-all",
        "test-cluster",
        "check",
        "audit",
        "bench",
        "docs",
        "clean",
    ]


def test_make_run_works_twice_from_a_path_with_spaces(checkout: Path, tmp_path: Path) -> None:
    """Once set up, `make run` prints the table, and does so again; neither calls the installer."""
    for room in ("builder", "harness", "model", "templates"):
        shutil.copytree(ROOT / room, checkout / room)
    make_environment(checkout / ".venv")
    requirements = (checkout / "pyproject.toml").read_bytes() + (
        checkout / "tests/constraints.txt"
    ).read_bytes()
    stamp = subprocess.run(["cksum"], input=requirements, capture_output=True, check=True).stdout
    (checkout / ".venv" / "installed-torch").write_bytes(stamp)
    env = {"FERRY_SHAPES": "t01", "FERRY_ROUTE": "eager", "FERRY_RUNS": str(tmp_path / "runs")}
    for _ in range(2):
        done = subprocess.run(
            ["make", "run"],
            cwd=checkout,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            check=True,
        )
        assert "Installing" not in done.stderr
        assert "1 passed on cpu" in done.stdout + done.stderr
    assert len(list((tmp_path / "runs").glob("*/results.csv"))) == 2
