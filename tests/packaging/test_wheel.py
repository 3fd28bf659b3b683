"""The wheel holds the four rooms that travel, and works away from the checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.packaging.environments import make_environment

ROOT = Path(__file__).parents[2]
TRAVELLERS = ("builder", "harness", "model", "templates")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the checkout as it is."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment that holds the wheel and sees what it depends on."""
    interpreter = make_environment(tmp_path_factory.mktemp("away from home") / "venv")
    install = [sys.executable, "-m", "pip", "--python", str(interpreter), "install"]
    subprocess.run([*install, "--no-deps", "--no-index", str(wheel)], check=True, capture_output=True)
    return interpreter


def away(python: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program of that environment in a folder outside the checkout."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [str(python.with_name(arguments[0])), *arguments[1:]]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=True)


def test_wheel_holds_the_travelling_rooms_and_no_more(wheel: Path) -> None:
    """The wheel's files are exactly those of the four rooms, and its own metadata."""
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    files = (path for room in TRAVELLERS for path in (ROOT / room).rglob("*") if path.is_file())
    assert inside == {path.relative_to(ROOT).as_posix() for path in files if "__pycache__" not in path.parts}


def test_wheel_carries_licence_and_command(wheel: Path) -> None:
    """The metadata holds the licence's text and the command `ferry`."""
    with zipfile.ZipFile(wheel) as archive:
        (licence,) = (name for name in archive.namelist() if name.endswith("licenses/LICENSE"))
        (points,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert archive.read(licence) == (ROOT / "LICENSE").read_bytes()
        assert "ferry = builder.__main__:main" in archive.read(points).decode()


def test_installed_modules_are_the_wheels(python: Path, tmp_path: Path) -> None:
    """In the new environment every room is imported from there and not from the checkout."""
    code = "import builder, harness.events, model; print(builder.__file__, harness.__file__, model.__file__)"
    printed = away(python, tmp_path, "python", "-c", code).stdout
    assert printed.count(str(python.parents[1])) == 3


def test_installed_command_says_its_version(python: Path, tmp_path: Path) -> None:
    """`ferry --version` and `python -m builder --version` are the same program."""
    printed = away(python, tmp_path, "ferry", "--version").stdout
    assert printed.startswith("ferry ")
    assert away(python, tmp_path, "python", "-m", "builder", "--version").stdout == printed


def test_installed_command_builds_and_runs_a_kernel(python: Path, tmp_path: Path) -> None:
    """Away from the checkout `ferry build` writes a kernel that runs there and passes its case."""
    choice = ("--suite", "smoke", "--shapes", "t01", "--route", "eager")
    away(python, tmp_path, "ferry", "build", *choice, "-o", "kernel")
    assert {"kernel.py", "kernel.ipynb", "bundle.json"} <= {path.name for path in tmp_path.glob("kernel/*")}
    away(python, tmp_path, "python", "kernel/kernel.py")
    away(python, tmp_path, "ferry", "parse", "ferry-events.jsonl", "-o", "results.csv")
    header, row = (tmp_path / "results.csv").read_text().splitlines()
    assert dict(zip(header.split(","), row.split(","), strict=False))["status"] == "passed"
