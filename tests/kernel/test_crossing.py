"""The whole way of a run, for real: `ferry run` on this machine, and a host that is killed on the way."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from builder import rehearsal, runs
from builder.results import COLUMNS
from builder.runs import Run
from tests.command import run_ferry
from tests.service.ferrying import ferry

GENEROUS_S = 120.0  # a busy machine may take longer than the ten seconds of a real rehearsal
ONE_CASE = ("--shapes", "1", "--route", "eager")


def rows(run: Run) -> list[dict[str, str]]:
    """Return a run's results."""
    with (run.folder / "results.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def only_run() -> Run:
    """Return the one run there is."""
    [run] = runs.all_runs()
    return run


@pytest.fixture(scope="module")
def run_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that one command has made: four cases, and what the command printed beside it."""
    root = tmp_path_factory.mktemp("crossing")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FERRY_RUNS", str(root))
        done = run_ferry("run", "--shapes", "1,4", "--route", "eager", "--route", "sdpa", "--json")
        assert done.returncode == 0, done.stderr
        (root / "printed.json").write_text(done.stdout)
        return only_run().folder


@pytest.fixture
def finished(run_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A copy of that run, the only one there is."""
    shutil.copytree(run_once.parent, tmp_path / "runs")
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path / "runs"))
    return only_run()


def test_run_ends_with_a_row_a_case_and_parses_to_the_same_bytes(finished: Run) -> None:
    """One command: every case passed, every column there, and a second parse changes nothing."""
    run = finished
    assert json.loads((run.folder.parent / "printed.json").read_text())["counts"] == {"passed": 4}
    table = rows(run)
    assert tuple(table[0]) == COLUMNS
    assert [(row["shape"], row["route_ran"]) for row in table] == [
        ("t01", "eager"),
        ("t04", "eager"),
        ("t01", "sdpa"),
        ("t04", "sdpa"),
    ]
    assert all(float(row["speedup"]) > 0 and row["device"].startswith("cpu") for row in table)
    derived = [run.folder / "results.csv", run.folder / "samples.csv", run.part(1) / "events.jsonl"]
    before = [path.read_bytes() for path in derived]
    assert run_ferry("parse", run.id).returncode == 0
    assert before == [path.read_bytes() for path in derived]


def test_the_journal_has_every_state_of_a_run(finished: Run) -> None:
    """From the intent to the rows, each change is one line, in order."""
    states = [entry.state for entry in finished.journal()]
    assert states == ["intent", "queued", "running", "done", "fetched", "parsed"]


def test_log_and_events_file_each_suffice(finished: Run, tmp_path: Path) -> None:
    """The same rows come from the log alone and from either events file alone, anywhere."""
    part = finished.part(1)
    texts = []
    for source in (part / "log.raw", part / "outputs" / "ferry-events.jsonl", part / "events.jsonl"):
        lonely = str(shutil.copy(source, tmp_path))
        done = run_ferry("parse", lonely, "-o", str(tmp_path / "out.csv"))
        assert done.returncode == 0, done.stderr
        texts.append((tmp_path / "out.csv").read_bytes())
    assert texts == [(only_run().folder / "results.csv").read_bytes()] * 3


def test_a_kernel_carried_by_hand_comes_back_by_import(tmp_path: Path) -> None:
    """Push to `manual`, run the kernel elsewhere, import its log: finished; a second execution is refused."""
    done = run_ferry("push", "--backend", "manual", "--accelerator", "cpu", "--no-rehearsal", *ONE_CASE)
    assert done.returncode == 0, done.stderr
    run = only_run()
    assert "ferry import" in done.stderr
    early = run_ferry("pull", run.id)
    assert early.returncode == 4
    assert "nothing has come back yet" in early.stderr
    kernel = shutil.copy(run.part(1) / "kernel.py", tmp_path)
    with (tmp_path / "ferry.log").open("wb") as log:
        subprocess.run([sys.executable, kernel, "--deadline", "9m"], cwd=tmp_path, stdout=log, check=True)
    done = run_ferry("import", run.id, str(tmp_path / "ferry.log"), str(tmp_path / "ferry-events.jsonl"))
    assert done.returncode == 0, done.stderr
    assert [row["status"] for row in rows(run)] == ["passed"]
    assert run_ferry("pull", run.id).returncode == 0
    before = sorted(run.part(1).iterdir())
    with (tmp_path / "again.log").open("wb") as log:
        subprocess.run([sys.executable, kernel, "--deadline", "1s"], cwd=tmp_path, stdout=log, check=True)
    again = run_ferry("import", run.id, str(tmp_path / "again.log"))
    assert again.returncode == 2
    assert "another execution" in again.stderr
    assert sorted(run.part(1).iterdir()) == before


def test_a_cpu_never_takes_the_place_of_a_gpu(tmp_path: Path) -> None:
    """A kernel meant for a GPU that is run on a CPU measures nothing: exit 6, every case not run."""
    assert run_ferry("push", "--backend", "manual", "--no-rehearsal", *ONE_CASE).returncode == 0
    run = only_run()
    with (tmp_path / "ferry.log").open("wb") as log:
        subprocess.run([sys.executable, run.part(1) / "kernel.py"], cwd=tmp_path, stdout=log, check=False)
    done = run_ferry("import", run.id, str(tmp_path / "ferry.log"))
    assert done.returncode == 6, done.stderr
    assert [row["status"] for row in rows(run)] == ["not_run"]


def test_a_log_of_another_run_is_refused(finished: Run) -> None:
    """Importing the wrong log names both runs and changes nothing."""
    other = finished
    assert run_ferry("push", "--backend", "manual", "--no-rehearsal", *ONE_CASE).returncode == 0
    run = runs.find(None)
    done = run_ferry("import", run.id, str(other.part(1) / "log.raw"))
    assert done.returncode == 2
    assert other.id in done.stderr
    assert not (run.part(1) / "log.raw").exists()


def test_ctrl_c_stops_a_local_run() -> None:
    """An interrupted `ferry run` exits 130, says that it stopped, and loses nothing."""
    command = [sys.executable, "-m", "builder", "run", "--suite", "official", "--shapes", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as host:
        wait_until(lambda: any('"kind":"started"' in log.read_text() for log in live_logs()))
        os.kill(host.pid, signal.SIGINT)
        said = host.communicate(timeout=150)[1]
    assert host.returncode == 130
    assert "stopped" in said
    done = run_ferry("pull", only_run().id)
    assert done.returncode == 4, done.stderr
    assert [row["status"] for row in rows(only_run())] == ["not_run"]


def test_detach_returns_at_once_and_pull_finishes() -> None:
    """`ferry run --detach` leaves the run to its supervisor."""
    done = run_ferry("run", "--detach", *ONE_CASE)
    assert done.returncode == 0
    run = only_run()
    assert not (run.part(1) / "log.raw").exists()
    assert run_ferry("pull", run.id).returncode == 0
    assert [row["status"] for row in rows(run)] == ["passed"]


def test_a_push_is_rehearsed_on_every_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails in seconds here is refused before a push, to this machine too, and leaves no run."""
    monkeypatch.setattr(rehearsal.rehearse, "__defaults__", (sys.executable, GENEROUS_S))
    model = tmp_path / "broken.py"
    model.write_text(
        "from torch_transformer_benchmark import BaselineTransformer\n\n\n"
        "class UserOptimizedTransformer(BaselineTransformer):\n"
        "    def forward(self, x, valid_token_mask=None):\n"
        "        raise RuntimeError('no such op')\n"
    )
    done = ferry("push", "--backend", "local", "--shapes", "1", "--model", str(model))
    assert done.code == 2, done.err
    assert "no such op" in done.err
    assert runs.all_runs() == []


# --- killed hosts -----------------------------------------------------------------------------------------

# Where the host dies: a function of ours that is replaced by one that kills the process instead.
MOMENTS = {
    "intent": "builder.backends.local.Local.submit",
    "push": "builder.runs.Run.write_submission",
    "run": "builder.cli._following._show",
    "end": "builder.crossing.fetch",
    "fetch": "builder.outputs.bring",
    "parse": "builder.results.samples_csv",
}
KILLED_HOST = """
import importlib, os, signal, sys
place, _, name = sys.argv.pop(1).rpartition(".")
try:
    owner = importlib.import_module(place)
except ModuleNotFoundError:
    module, _, cls = place.rpartition(".")
    owner = getattr(importlib.import_module(module), cls)
setattr(owner, name, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
from builder.__main__ import main
main()
"""


def live_logs() -> list[Path]:
    """Return the events files of kernels that are at work."""
    return list(runs.runs_root().glob("*/parts/1/local/work/ferry-events.jsonl"))


def wait_until(condition: object, limit_s: float = 120.0) -> None:
    """Poll until a condition holds; fail when it never does."""
    assert callable(condition)
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_host_killed_on_the_way_loses_nothing(moment: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Kill -9 at each step of `ferry run`; `ferry pull` finishes, and the kernel has run once."""
    with capsys.disabled():
        print(f"\n  killed at {moment} ({MOMENTS[moment]})", end="")
    command = [sys.executable, "-c", KILLED_HOST, MOMENTS[moment], "run", *ONE_CASE]
    killed = subprocess.run(command, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    run = only_run()
    states = [entry.state for entry in run.journal()]
    assert states[0] == "intent"
    done = run_ferry("pull")
    assert done.returncode == 0, done.stderr
    assert [row["status"] for row in rows(run)] == ["passed"]
    assert run.state(0) == "parsed"
    events = (run.part(1) / "outputs" / "ferry-events.jsonl").read_text()
    assert events.count('"kind":"plan"') == 1
    assert not list(run.folder.rglob(".*.tmp"))
