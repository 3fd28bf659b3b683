"""How a command ends when something is wrong: one sentence, a hint, the exit code, and JSON when asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from builder import runs
from builder.spec import RunSpec
from tests.command import ROOT, run_ferry

PUSH = ("push", "--backend", "manual", "--no-rehearsal", "--shapes", "1", "--route", "eager")


@pytest.mark.parametrize(
    "arguments",
    [
        ["build"],
        ["build", "--nope"],
        ["run", "--timeout", "soon"],
        ["pull", "--wait", "soon"],
        ["import", "2026", "no-such.log"],
        ["no-such-command"],
    ],
)
def test_a_word_that_is_wrong_to_click_is_an_envelope_too(arguments: list[str]) -> None:
    """`--json` is one document on stdout whoever found the fault."""
    done = run_ferry(*arguments, "--json")
    document = json.loads(done.stdout)
    assert done.returncode == document["exit_code"] == 2
    assert document["error"]["message"]
    assert document["error"]["hint"]


def test_a_place_that_cannot_be_used_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file where a folder is wanted is named; it is no fault of ferry's."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path / "file"))
    done = run_ferry(*PUSH)
    assert done.returncode == 5
    assert str(tmp_path / "file") in done.stderr
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_that_is_gone_is_named_as_the_cause(tmp_path: Path) -> None:
    """A shell may stand in a folder that somebody has removed."""
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"import os; os.rmdir({str(gone)!r}); from builder.__main__ import main; main()"
    environment = {name: value for name, value in os.environ.items() if name != "FERRY_RUNS"}
    done = subprocess.run(
        [sys.executable, "-c", script, "ls"],
        cwd=gone,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "folder that this shell is in is gone" in done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["suites", "--json"]])
def test_a_reader_that_leaves_early_sees_no_traceback(arguments: list[str]) -> None:
    """`ferry --help | head -0` is quiet."""
    command = [sys.executable, "-m", "builder", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as ferry:
        assert ferry.stdout is not None
        assert ferry.stderr is not None
        ferry.stdout.close()
        assert ferry.stderr.read() == b""


def test_one_damaged_run_does_not_hide_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ferry ls` lists both and says what is wrong with one."""
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path))
    for number in (1, 2):
        with runs.create(RunSpec("smoke", (), run_id=f"20261130-101112-00000{number}", name="a\nb")):
            pass
    (tmp_path / "20261130-101112-000001" / "spec.json").write_text("{")
    lines = run_ferry("ls").stderr.splitlines()
    assert len(lines) == 3
    assert "  a b  " in lines[1]
    assert "spec.json cannot be read" in lines[2]


def test_a_run_by_hand_is_pushed_by_run_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ferry run --backend manual` says what to do; stop, logs and import say what they cannot."""
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path / "runs"))
    done = run_ferry("run", *PUSH[1:])
    assert done.returncode == 0
    assert "ferry import" in done.stderr
    assert "ferry import" in run_ferry("status").stderr
    assert run_ferry("stop").returncode == 2
    assert run_ferry("logs").returncode == 4
    (tmp_path / "page.html").write_text("<!doctype html><title>no</title>")
    [run] = runs.all_runs()
    for wrong in (os.devnull, str(tmp_path / "page.html")):
        done = run_ferry("import", run.id, wrong)
        assert done.returncode == 2
        assert wrong in done.stderr
    assert run.logs() == []


def test_a_csv_never_takes_the_place_of_its_log(tmp_path: Path) -> None:
    """`-o` with the log's own name is refused, through a link too; a page of the web has no rows."""
    log = tmp_path / "log"
    log.write_text("<!doctype html>")
    (tmp_path / "link").symlink_to(log)
    done = run_ferry("parse", str(log), "-o", str(tmp_path / "link"))
    assert done.returncode == 2
    assert "is the log itself" in done.stderr
    done = run_ferry("parse", str(log))
    assert done.returncode == 4
    assert "the plan of no case is in the log" in done.stderr


def test_a_run_that_has_left_nothing_has_a_row_a_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any log each planned case is unknown, in the run's own CSV and in any other; exit code 4."""
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path / "runs"))
    assert run_ferry(*PUSH).returncode == 0
    [run] = runs.all_runs()
    assert run_ferry("parse", run.id).returncode == 4
    assert run_ferry("parse", run.id, "-o", str(tmp_path / "out.csv")).returncode == 4
    text = (tmp_path / "out.csv").read_text()
    assert text == (run.folder / "results.csv").read_text()
    assert [line.split(",")[18] for line in text.splitlines()] == ["status", "unknown"]
