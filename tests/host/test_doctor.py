"""What the doctor says of this machine; no service is asked."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import namedtuple
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from builder import doctor
from builder.backends.kaggle import checks
from tests.command import ROOT, run_ferry

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def told(*places: str) -> dict[str, tuple[str, str]]:
    """What each check came to: (detail, mend) by `place: what`."""
    return {f"{place}: {one.what}": (one.detail, one.mend) for place, one in doctor.examine(places)}


def test_a_sound_machine_has_no_fault(tmp_path: Path) -> None:
    """Nothing is wrong where everything is there, and the exit code says so."""
    done = run_ferry("doctor", "--backend", "local", "--json", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert done.returncode == 0, document
    assert document["counts"] == {"wrong": 0}
    assert {check["what"] for check in document["checks"]} >= {"versions", "runs", "temporary files", "torch"}


def test_what_is_not_set_up_is_a_fault_only_when_asked_for(tmp_path: Path) -> None:
    """Without a Kaggle credential the doctor is content, unless Kaggle is what somebody wants."""
    assert run_ferry("doctor", cwd=tmp_path).returncode == 0
    done = run_ferry("doctor", "--backend", "kaggle", cwd=tmp_path)
    assert done.returncode == 3
    assert "WRONG  kaggle: credential: there is no Kaggle credential here" in done.stderr
    assert "mend: make a token" in done.stderr


def test_an_unknown_backend_is_a_usage_error(tmp_path: Path) -> None:
    """A wrong name lists the right ones."""
    done = run_ferry("doctor", "--backend", "kagle", cwd=tmp_path)
    assert done.returncode == 2
    assert "kaggle" in done.stderr


def test_a_full_disk_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too little room is a fault that says what to do."""
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(2**40, 2**40, 2**20))
    detail, mend = told()["ferry: runs"]
    assert "0.0 GiB free" in detail
    assert "make room" in mend


def test_a_folder_that_cannot_be_written_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runs folder that is a file is a fault."""
    (tmp_path / "runs").write_text("")
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path / "runs"))
    detail, mend = told()["ferry: runs"]
    assert "cannot be written to: Not a directory" in detail
    assert "FERRY_RUNS" in mend


@pytest.mark.parametrize(
    ("need", "expected"),
    [
        ("click>=8.2", ""),
        ("click>=99.1", "99.1 is needed"),
        ("nothing-of-this-name>=1", "nothing-of-this-name is not installed"),
        ("click", ""),
        ("nothing-of-this-name>=1; extra == 'dev'", ""),
    ],
)
def test_a_package_that_is_missing_or_old_is_found(need: str, expected: str) -> None:
    """Each need is held against what is installed; what only an extra needs is not."""
    assert expected in doctor._unfit(need)
    assert bool(expected) == bool(doctor._unfit(need))


def test_an_interpreter_without_torch_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Local runs need torch, and the hint says how to get it."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setenv("FERRY_PYTHON", str(python))
    detail, mend = told("local")["local: torch"]
    assert "has no torch" in detail
    assert "pip install torch" in mend
    monkeypatch.setenv("FERRY_PYTHON", str(tmp_path / "gone"))
    assert "cannot be started" in told("local")["local: python"][0]


@pytest.mark.parametrize(
    ("variables", "detail", "is_fault"),
    [
        ({}, "localhost directly", False),
        (
            {"HTTP_PROXY": "http://user:secret@proxy.example:3128"},
            "localhost through http://proxy.example:3128",
            False,
        ),
        ({"HTTP_PROXY": "http://"}, "has no host in it", True),
        ({"HTTP_PROXY": "http://proxy.example:port"}, "has no host in it", True),
        ({"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "localhost"}, "NO_PROXY exempts localhost", True),
    ],
)
def test_the_proxy_is_looked_at(
    variables: dict[str, str], detail: str, is_fault: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which way calls go is told without a password, and a setting that cannot work is a fault."""
    monkeypatch.setenv("KAGGLE_API_ENVIRONMENT", "LOCALHOST")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found, mend = told("kaggle")["kaggle: proxy"]
    assert detail in found
    assert bool(mend) == is_fault
    assert "secret" not in found


def test_an_environment_that_leads_astray_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word for another service ends the look at Kaggle before anything is sent."""
    monkeypatch.setenv("KAGGLE_API_ENVIRONMENT", "TEST")
    detail, mend = told("kaggle")["kaggle: service"]
    assert "TEST" in detail
    assert "LOCALHOST" in mend


@pytest.mark.parametrize(
    ("ahead", "told_of", "is_fault"),
    [
        (timedelta(), "within 60 s", False),
        (timedelta(minutes=5), "300 s ahead of Kaggle", True),
        (timedelta(minutes=-5), "300 s behind Kaggle", True),
    ],
)
def test_a_clock_that_is_wrong_is_found(ahead: timedelta, told_of: str, is_fault: bool) -> None:
    """The service's own time is what this machine's is held against."""
    date = format_datetime(NOON - ahead, usegmt=True)
    found = checks.clock(date, NOON)
    assert told_of in found.detail
    assert bool(found.mend) == is_fault


def test_a_date_that_is_none_is_no_fault() -> None:
    """A service, or a proxy, may leave its time out."""
    assert checks.clock("soon", NOON).mend == ""


def test_the_clients_undeclared_package_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kaggle's own command line needs six and does not say so."""
    monkeypatch.setattr(checks, "find_spec", lambda name: None if name == "six" else True)
    detail, mend = told("kaggle")["kaggle: library"]
    assert "six" in detail
    assert mend == "pip install six"


WITHOUT_LIBRARY = """
import sys
sys.modules["kagglesdk"] = None
sys.argv = ["ferry", *sys.argv[1:]]
from builder.__main__ import main
main()
"""


def test_a_missing_library_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Kaggle's library a command that needs it says what to install, and nothing is sent."""
    for name, value in {
        "KAGGLE_API_ENVIRONMENT": "LOCALHOST",
        "KAGGLE_USERNAME": "a",
        "KAGGLE_KEY": "k",
    }.items():
        monkeypatch.setenv(name, value)
    command = [sys.executable, "-c", WITHOUT_LIBRARY, "quota"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Kaggle's library cannot be imported" in done.stderr
    assert "pip install" in done.stderr
    assert "Traceback" not in done.stderr
