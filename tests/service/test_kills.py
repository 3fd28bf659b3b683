"""A host that is killed with -9 between any two steps from intent to CSV, and another that goes on."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from builder import runs
from builder.runs import Run
from tests.command import ROOT
from tests.service.ferrying import ONE_CASE, ferry, passing, program, released, states
from tests.service.kaggle.server import KaggleServer
from tests.unit.written_logs import lines_of

# The step: a function of ours that kills the process when it is called, if need be with this argument.
STEPS = {
    "the intent is on disk, nothing was sent": ("builder.backends.kaggle.Kaggle.submit", ""),
    "the push was accepted, its answer is not on disk": ("builder.runs.Run.write_submission", ""),
    "the answer is on disk, the journal does not say so": ("builder.runs.Run.record", "queued"),
    "it is accepted, nothing was asked": ("builder.cli.run.follow", ""),
    "its state was asked for, and is not written down": ("builder.submission.note", "running"),
    "its log is followed": ("builder.cli._following._take", ""),
    "its end is not written down": ("builder.runs.Run.record", "done"),
    "it is over, nothing was fetched": ("builder.crossing.fetch", ""),
    "its log is asked for": ("builder.backends.kaggle.Kaggle.fetch_log", ""),
    "its log is here, no file is": ("builder.outputs.bring", ""),
    "a file is half here": ("builder.outputs._checked", ""),
    "a file is whole, under its temporary name": ("pathlib.Path.rename", "/outputs/"),
    "all files are here, their report is not": ("builder.outputs.write_report", ""),
    "all is here, the journal does not say so": ("builder.runs.Run.record", "fetched"),
    "its events are not written": ("builder.records.Records.events_jsonl", ""),
    "its rows are not written": ("builder.results.results_csv", ""),
    "its rows are written, its samples are not": ("builder.results.samples_csv", ""),
    "all is written, the journal does not say so": ("builder.runs.Run.record", "parsed"),
}
KILLED_HOST = """
import importlib, os, signal, sys
from builder.clock import SystemClock
from tests.service.ferrying import Hurried
for name in ("now", "monotonic", "sleep"):
    setattr(SystemClock, name, getattr(Hurried, name))
place, argument = sys.argv.pop(1), sys.argv.pop(1)
*modules, name = place.split(".")
owner, rest = None, []
while owner is None:
    try:
        owner = importlib.import_module(".".join(modules))
    except ModuleNotFoundError:
        rest.insert(0, modules.pop())
for part in rest:
    owner = getattr(owner, part)
was = getattr(owner, name)
def step(*args, **more):
    if not argument or any(argument in str(one) for one in args):
        os.kill(os.getpid(), signal.SIGKILL)
    return was(*args, **more)
setattr(owner, name, step)
from builder.__main__ import main
main()
"""


def until(condition: Callable[[], bool]) -> None:
    """Poll until a condition holds; fail when it never does."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


def killed(kaggle: KaggleServer, place: str, argument: str) -> Run:
    """Start `ferry run` and let it die at a step; return its run."""
    kaggle.knobs.hold = True
    command = [sys.executable, "-c", KILLED_HOST, place, argument, "run", *ONE_CASE]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as host:
        until(lambda: bool(kaggle.sessions) or host.poll() is not None)
        [run] = runs.all_runs()
        released(
            kaggle, program(lines_of(passing(run), run.id), rest="open('more.bin', 'wb').write(bytes(70000))")
        )
        assert host.wait(60) == -signal.SIGKILL
    return run


def check_whole(run: Run) -> None:
    """Every file that is here is whole, and nothing is left of one that was not."""
    part = run.part(1)
    assert json.loads((part / "log.raw").read_text())
    assert (part / "outputs" / "more.bin").stat().st_size == 70_000
    events = (part / "outputs" / "ferry-events.jsonl").read_text()
    assert events == (part / "events.jsonl").read_text()
    leftovers = [path.name for path in run.folder.rglob(".*") if path.suffix != ".lock"]
    assert leftovers == []
    with (run.folder / "results.csv").open(newline="") as stream:
        assert [row["status"] for row in csv.DictReader(stream)] == ["passed"]


@pytest.mark.parametrize("step", STEPS)
def test_a_killed_host_loses_nothing(
    hurried: KaggleServer, step: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a kill -9 at each step another process pulls: one session, the same run, no half file."""
    with capsys.disabled():
        print(f"\n  killed when {step}", end="")
    run = killed(hurried, *STEPS[step])
    assert states(run)[0] == "intent"
    done = ferry("pull", "--json")
    assert done.code == 0, done.out
    assert (done.document["run_id"], done.document["counts"]) == (run.id, {"passed": 1})
    assert len(hurried.sessions) == 1
    assert [kernel.slug for kernel in hurried.kernels.kernels] == [f"ferry-{run.id}-1"]
    check_whole(run)
    assert run.is_finished
    assert Path(run.folder).parent == runs.runs_root()
