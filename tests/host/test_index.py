"""The index of runs: rebuilt from the folders, whatever lies there, and seen again when a run has changed."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from builder import index, runs
from builder.index import FILE, Entry
from builder.runs import Run
from builder.spec import RunSpec, Selection, plan
from tests.command import ROOT, run_ferry

PUBLISHED = ROOT / "runs" / "published"
REAL = ("20261130-134228-5a8555", "20261130-134230-f2897d")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runs' root with two real runs."""
    for run_id in REAL:
        shutil.copytree(PUBLISHED / run_id, tmp_path / "runs" / run_id)
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def listed(root: Path) -> dict[str, Entry]:
    """The entries by run."""
    return {entry.run_id: entry for entry in index.entries(root)}


def settle(root: Path) -> None:
    """Bring the index up to date once the folders' last change is old enough to be trusted."""
    newest = max(path.stat().st_ctime for path in root.iterdir())
    while time.time() < newest + 2.1:
        time.sleep(0.05)
    index.entries(root)


def test_a_row_says_what_a_run_is(root: Path) -> None:
    """Suite, shapes, routes, device and statuses come from the run's own files."""
    entry = listed(root)[REAL[1]]
    assert (entry.state, entry.suite, entry.routes, entry.devices) == (
        "parsed",
        "official",
        "compiled",
        "NVIDIA H200",
    )
    assert entry.statuses == {"passed": 12}
    assert "s13" in entry.shapes.split()


def test_the_index_may_be_lost_altered_or_of_another_version(root: Path) -> None:
    """It is derived: whatever stands in its place, the same rows are listed."""
    before = index.entries(root)
    for content in (
        b"",
        b"\xff\x00",
        b"[" * 100_000,
        b'{"schema": 1, "rows": [{}]}',
        b'{"schema":9,"rows":[]}',
    ):
        (root / FILE).write_bytes(content)
        assert index.entries(root) == before
    (root / FILE).unlink()
    assert index.entries(root) == before


def test_what_has_not_changed_is_not_read_again(root: Path) -> None:
    """A folder whose last change is known keeps its row; a change of state or results shows."""
    settle(root)
    kept = json.loads((root / FILE).read_bytes())
    for row in kept["rows"]:
        row["entry"]["note"] = "remembered"
    (root / FILE).write_text(json.dumps(kept))
    assert {entry.note for entry in index.entries(root)} == {"remembered"}
    Run(root / REAL[0]).record("running", 1)
    runs.atomic_write(root / REAL[1] / "results.csv", "status,device\noom,Tesla T4\n")
    found = listed(root)
    assert found[REAL[0]].state == "running"
    assert found[REAL[1]].statuses == {"oom": 1}


def test_folders_of_every_kind_are_listed_and_none_breaks_the_listing(root: Path) -> None:
    """What is no whole run is a row with a word; what is no run at all is not listed."""
    broken = {
        "20260101-000000-000001": {},
        "20260101-000000-000002": {"spec.json": b"{"},
        "20260101-000000-000003": {"spec.json": b'{"suite": 3, "cases": []}'},
        "20260101-000000-000004": {"spec.json": b'{"suite": "x", "cases": [], "run_id": "other"}'},
    }
    for run_id, files in broken.items():
        (root / run_id).mkdir()
        for name, content in files.items():
            (root / run_id / name).write_bytes(content)
    (root / "20260101-000000-000005").write_text("a file")
    (root / "20260101-000000-000006").symlink_to("nowhere")
    (root / REAL[0] / "results.csv").write_bytes(b'status,device\n"passed')
    os.mkfifo(root / "20260101-000000-000001" / "spec.json")
    (root / "somebody's notes").mkdir()
    found = listed(root)
    assert len(found) == 8
    damaged = {run_id: entry.note for run_id, entry in found.items() if entry.state == "damaged"}
    assert len(damaged) == 7
    assert all(damaged.values())
    assert found[REAL[1]].state == "parsed"


def test_half_finished_and_refused_runs_say_so(root: Path) -> None:
    """The state is that of the part which is still to come, with the place's words where it said no."""
    states = (
        ("20260101-000000-00000a", "refused", "quota is used up"),
        ("20260101-000000-00000b", "running", ""),
    )
    for run_id, state, detail in states:
        with runs.create(RunSpec("smoke", plan(Selection()), run_id=run_id)) as draft:
            draft.part(1).mkdir(parents=True)
        Run(root / run_id).record(state, 1, detail)
    Run(root / REAL[0]).record("queued", 2)
    found = listed(root)
    assert (found["20260101-000000-00000a"].state, found["20260101-000000-00000a"].note) == (
        "refused",
        "quota is used up",
    )
    assert found["20260101-000000-00000b"].state == "running"
    assert found[REAL[0]].state == "queued"


def _list_and_record(root: Path) -> None:
    for _ in range(10):
        Run(root / REAL[0]).record("running", 1)
        index.entries(root)


def test_processes_that_list_and_write_at_once_leave_a_whole_index(root: Path) -> None:
    """Several writers cost each other nothing: the index stays readable and the last state is seen."""
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_list_and_record, args=(root,)) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert json.loads((root / FILE).read_bytes())["schema"] == 1
    Run(root / REAL[0]).record("failed", 1, "lost")
    assert listed(root)[REAL[0]].state == "failed"
    assert [path.name for path in root.iterdir() if path.name.startswith(f".{FILE}")] == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--shape", "7"], [REAL[1]]),
        (["--shape", "t03"], [REAL[0]]),
        (["--route", "eager"], [REAL[0]]),
        (["--device", "h200"], [REAL[1], REAL[0]]),
        (["--device", "t4"], []),
        (["--status", "passed", "--sort", "date", "--reverse"], [REAL[0], REAL[1]]),
        (["--status", "oom"], []),
        (["--since", "2026-12-01"], []),
        (["--since", "2026-11", "--until", "20261130"], [REAL[1], REAL[0]]),
        (["SMOKE", "gpu"], [REAL[0]]),
        (["-n", "1"], [REAL[1]]),
    ],
)
def test_filters_choose_and_sort(root: Path, arguments: list[str], expected: list[str]) -> None:
    """Each filter leaves the runs that fit it, in the order asked for."""
    done = run_ferry("ls", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    assert [entry["run_id"] for entry in json.loads(done.stdout)["ls"]] == expected


def test_a_hostile_name_is_shown_on_one_line(root: Path) -> None:
    """Terminal sequences and line ends in a name reach no terminal; JSON keeps them as data."""
    path = root / REAL[0] / "spec.json"
    spec = json.loads(path.read_text())
    runs.atomic_write(path, json.dumps({**spec, "name": "\x1b[2J<script>\n../x"}))
    shown = run_ferry("ls").stderr
    assert "<script> ../x" in shown
    assert "\x1b" not in shown
    assert run_ferry("ls", "--since", "tomorrow").returncode == 2


def test_listing_imports_nothing_that_it_does_not_need() -> None:
    """The parsers and the statistics stay unloaded, so that a listing is quick."""
    code = "import sys, builder.cli.ls; print({'builder.records', 'builder.spec', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
