"""Tab: what the shell is offered, and what that costs."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from pathlib import Path

import click
import pytest

from builder import demo, runs
from builder.cli import ferry
from builder.cli._completing import RUN_TAKERS, answer, completing
from tests.command import ROOT

ASKED = "_FERRY_COMPLETE"
RUNS = ("20261130-101112-abcdef", "20261201-101112-abcdef")


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A runs' folder with two runs, one of them published, and something else; a profile of Slurm."""
    for name in (RUNS[0], f"published/{RUNS[1]}", "notes"):
        (runs.runs_root() / name).mkdir(parents=True)
    (tmp_path / "ferry.toml").write_text("[backends.slurm.short]\nhost = 'x'\n")
    monkeypatch.chdir(tmp_path)


def tab(typed: str, shell: str = "bash") -> list[str]:
    """What is offered at the end of a line."""
    asked = {ASKED: f"{shell}_complete", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said):
        for name, value in asked.items():
            patch.setenv(name, value)
        answer(ferry, ASKED)
    return said.getvalue().splitlines()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("ferry sh", ["shapes", "show"]),
        ("ferry run --suite off", ["official", "official-small"]),
        ("ferry push --shapes t01,t02,t0", [f"t01,t02,t0{number}" for number in range(1, 6)]),
        ("ferry run --route sd", ["sdpa"]),
        ("ferry ls --status not", ["not_run"]),
        ("ferry probe --accelerator NvidiaTeslaT", ["NvidiaTeslaT4", "NvidiaTeslaT4Highmem"]),
        ("ferry push --backend slurm", ["slurm", "slurm:short"]),
        ("ferry show 20", [RUNS[1], RUNS[0]]),
        ("ferry logs -f 20261130", [RUNS[0]]),
        ("ferry demo ", demo.names()),
        ("ferry run --protocol s", ["strict"]),
    ],
)
@pytest.mark.usefixtures("offered")
def test_names_are_offered(typed: str, said: list[str]) -> None:
    """Commands, values and runs go on from what was typed."""
    assert tab(typed) == [f"plain,{word}" for word in said]


@pytest.mark.usefixtures("offered")
def test_what_is_no_run_may_be_a_file() -> None:
    """Where nothing known fits, the shell completes paths; other shells are told what a name is."""
    assert tab("ferry parse down") == ["file,down"]
    assert "small, every code path; a minute on two cores" in tab("ferry run --suite ", "zsh")


@pytest.mark.usefixtures("offered")
def test_every_command_that_takes_a_run_is_answered_at_once() -> None:
    """The commands that are answered without being imported are those whose first argument is a run."""
    context = click.Context(ferry)
    takers = set()
    for name in ferry.list_commands(context):
        command = ferry.get_command(context, name)
        assert command
        first = next((one for one in completing(command).params if isinstance(one, click.Argument)), None)
        if first and [item.value for item in first.shell_complete(context, "2026")] == [RUNS[1], RUNS[0]]:
            takers.add(name)
    assert takers == RUN_TAKERS


@pytest.mark.usefixtures("offered")
def test_a_run_is_offered_before_anything_heavy_is_imported() -> None:
    """Neither the command nor what it works with is imported to list runs."""
    code = (
        "import os, sys\n"
        "os.environ.update(_FERRY_COMPLETE='bash_complete', COMP_WORDS='ferry show 20', COMP_CWORD='2')\n"
        "from builder.cli import main\n"
        "try: main()\n"
        "finally: print(*(name for name in sys.modules if name.startswith(('builder', 'harness', 'rich'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    *offers, loaded = done.stdout.splitlines()
    assert offers == [f"plain,{RUNS[1]}", f"plain,{RUNS[0]}"]
    light = {"builder", "builder.cli", "builder.cli._completing", "builder.disk", "builder.errors"}
    assert set(loaded.split()) == light | {"builder.overview"}
