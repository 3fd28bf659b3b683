"""A kernel as a script and as a notebook: the same order gives the same events."""

import json
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from builder.build import write_build
from builder.spec import RunSpec
from harness.events import CaseDone, Device, End, Event, Plan, Samples, decode
from harness.shapes import SHAPES, Case, Counts

MODELS = Path(__file__).parents[1] / "models"
SHORT = Counts(1, 2, 2)
CASES = (Case(SHAPES["t03"], protocol="short", counts=SHORT, harness_args=("--accuracy-trials", "1")),)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built kernel's folder."""
    folder = tmp_path_factory.mktemp("built")
    write_build(RunSpec("smoke", CASES, model_path=str(MODELS / "package_model")), folder)
    return folder


def by_script(kernel: Path, folder: Path) -> str:
    """Run the script in a folder; return its log."""
    command = [sys.executable, str(kernel / "kernel.py")]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def by_notebook(kernel: Path, folder: Path) -> str:
    """Run the notebook in a folder; return its log."""
    notebook = nbformat.from_dict(json.loads((kernel / "kernel.ipynb").read_text("utf-8")))  # type: ignore[no-untyped-call]
    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(folder)}}).execute()
    return "".join(output.text for cell in notebook.cells[1:] for output in cell.outputs)


def events(log: str) -> list[Event]:
    """The events of a log."""
    return [event for event in map(decode, log.splitlines()) if event]


def gist(event: Event) -> tuple[object, ...]:
    """What of an event does not depend on clock and run: its place, its kind, and what it found."""
    found: object = None
    match event.body:
        case CaseDone() as done:
            found = (done.case_id, done.status, done.gate, done.samples)
        case Samples() as samples:
            found = (samples.case_id, samples.side, samples.round, samples.start)
        case Plan() as plan:
            found = (plan.terms, plan.planned)
        case Device() as device:
            found = (device.index, device.name, device.torch)
        case End() as end:
            found = (end.reason, end.counts)
    return event.name.attempt, event.name.seq, type(event.body), found


def test_script_and_notebook_give_the_same_events(kernel: Path, tmp_path: Path) -> None:
    """Both forms end complete with the same events in the same order, and keep a copy of each in a file."""
    logs = {}
    for run in (by_script, by_notebook):
        folder = tmp_path / run.__name__
        folder.mkdir()
        logs[run] = events(run(kernel, folder))
        assert events((folder / "ferry-events.jsonl").read_text("utf-8")) == logs[run]
    assert [gist(event) for event in logs[by_script]] == [gist(event) for event in logs[by_notebook]]
    last = logs[by_script][-1].body
    assert isinstance(last, End)
    assert (last.reason, last.counts) == ("complete", {"passed": len(CASES)})
