"""The real kernel on hardware that a file makes up: right, wrong, missing, and claiming CUDA without code."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from builder import results
from builder.build import write_build
from builder.errors import Exit
from builder.records import Records, read_records
from builder.spec import RunSpec
from harness.events import CaseDone, Device, Hardware, RunRef, Started
from harness.shapes import SHAPES, Case, Counts

CASES = tuple(
    Case(
        SHAPES[key],
        "eager",
        protocol="short",
        counts=Counts(1, 2, 1),
        harness_args=("--accuracy-trials", "1"),
    )
    for key in ("t01", "t03")
)
SPEC = RunSpec("smoke", CASES, accelerator="NvidiaTeslaT4")
REF = RunRef("20261130-120000-abcdef")
T4 = {"name": "Tesla T4", "capability": "7.5", "memory_mib": 15360, "driver": "550.54"}
P100 = {"name": "Tesla P100-PCIE-16GB", "capability": "6.0", "memory_mib": 16384, "driver": "550.54"}
TORCH = {"torch": "2.9.0+cu128", "cuda": "12.8", "arches": ["sm_75", "sm_80"]}
HARDWARE: dict[str, dict[str, object]] = {
    "right": {"cards": [{"index": 0, **T4}, {"index": 1, **T4}], **TORCH},
    "wrong": {"cards": [{"index": 0, **P100}], **TORCH},
    "one of two": {"cards": [{"index": 0, **T4}], **TORCH},
    "missing": {"cards": [], "torch": "2.9.0+cpu", "problem": "CUDA: no"},
    "no CUDA": {
        "cards": [{"index": 0, **T4}, {"index": 1, **T4}],
        "torch": "2.9.0+cpu",
        "problem": "CUDA: no",
    },
    "no code": {"cards": [{"index": 0, **T4}, {"index": 1, **T4}], **TORCH, "arches": ["sm_80", "sm_90"]},
}
REFUSED = ("wrong", "one of two", "missing", "no CUDA", "no code")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, beside the file that says what hardware there is."""
    monkeypatch.setenv("FERRY_TEST_HARDWARE", str(tmp_path / "hardware.json"))
    work = tmp_path / "work"
    work.mkdir()
    return work


def carried_out(place: Path, hardware: str, spec: RunSpec = SPEC) -> Records:
    """Build the spec's kernel, run it on such hardware as Kaggle would, and read its log."""
    (place.parent / "hardware.json").write_text(json.dumps(HARDWARE[hardware]))
    write_build(spec, place.parent / "build", REF)
    kernel = str(place.parent / "build" / "kernel.py")
    with (place.parent / "log.raw").open("wb") as log:
        done = subprocess.run(
            [sys.executable, kernel], cwd=place, stdout=log, stderr=subprocess.STDOUT, check=False
        )
    assert done.returncode == 0
    return read_records([place.parent / "log.raw"], REF.run_id)


def verdict(records: Records) -> Exit:
    """What the host makes of it."""
    return results.exit_code(records, results.rows(records))


def test_two_cards_work_side_by_side(place: Path) -> None:
    """Each of two cards carries a case, the longer one is dealt first, and each row says where and that
    it is simulated.
    """
    records = carried_out(place, "right")
    assert verdict(records) == Exit.OK
    rows = results.rows(records)
    assert [row.status for row in rows] == ["passed"] * 2
    assert sorted(row.device_index for row in rows if row.device_index is not None) == [0, 1]
    assert all(row.device == "simulated Tesla T4" and row.is_simulated for row in rows)
    assert {(row.capability, row.driver) for row in rows} == {("7.5", "550.54")}
    begun = [event for event in records.events if isinstance(event.body, Started)]
    first_end = min(event.name.seq for event in records.events if isinstance(event.body, CaseDone))
    assert all(event.name.seq < first_end for event in begun)  # both at once
    cores = [set(row.flags["cores"].split()) for row in rows]
    assert not cores[0] & cores[1]


def test_one_device_is_enough_when_asked_for(place: Path) -> None:
    """With one device the first card carries every case, in the plan's order."""
    records = carried_out(place, "right", replace(SPEC, devices=1))
    assert [row.device_index for row in results.rows(records)] == [0, 0]
    started = [event.body.case_id for event in records.events if isinstance(event.body, Started)]
    assert started == [case.id for case in CASES]


@pytest.mark.parametrize("hardware", REFUSED)
def test_hardware_that_was_not_asked_for_runs_nothing(place: Path, hardware: str) -> None:
    """It is found within ten seconds of the start, no case runs, each row says asked and got: exit 6."""
    records = carried_out(place, hardware)
    assert verdict(records) == Exit.WRONG_ACCELERATOR
    assert records.end_reason == "wrong_accelerator"
    rows = results.rows(records)
    assert {(row.status, row.error_kind) for row in rows} == {("not_run", "wrong_accelerator")}
    assert all(
        "asked for 2 × Tesla T4 of capability 7.5, got " in row.error and row.is_simulated for row in rows
    )
    (told,) = [event for event in records.events if isinstance(event.body, Hardware)]
    assert told.at < 10
    assert records.events[-1].at - told.at < 10
    assert any(isinstance(event.body, Device) for event in records.events)
    assert not any(isinstance(event.body, Started) for event in records.events)


def test_mismatch_with_leave_is_in_every_row(place: Path) -> None:
    """With leave to differ the run goes on where it can, and every row says asked and got."""
    records = carried_out(place, "wrong", replace(SPEC, allow_mismatch=True))
    rows = results.rows(records)
    assert [row.status for row in rows] == ["passed"] * 2
    assert all(
        row.flags["mismatch"].startswith(
            "asked for 2 × Tesla T4 of capability 7.5, got 1 × simulated Tesla P100"
        )
        for row in rows
    )


def test_notebook_ends_well_on_wrong_hardware(place: Path) -> None:
    """In a notebook nothing is raised: the outputs are kept, and the events say what came."""
    (place.parent / "hardware.json").write_text(json.dumps(HARDWARE["wrong"]))
    write_build(SPEC, place.parent / "build", REF)
    text = (place.parent / "build" / "kernel.ipynb").read_text()
    notebook = nbformat.from_dict(json.loads(text))  # type: ignore[no-untyped-call]
    NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(place)}}).execute()
    assert verdict(read_records([place / "ferry-events.jsonl"])) == Exit.WRONG_ACCELERATOR


@pytest.mark.parametrize(
    ("hardware", "code", "name"),
    [("right", Exit.OK, "Tesla T4"), ("wrong", Exit.WRONG_ACCELERATOR, "Tesla P100-PCIE-16GB")],
)
def test_probe_is_a_kernel_without_cases(place: Path, hardware: str, code: Exit, name: str) -> None:
    """An order without cases reports the machine and ends; on wrong hardware its exit code is 6, too."""
    records = carried_out(place, hardware, replace(SPEC, cases=()))
    assert verdict(records) == code
    seen = records.hardware
    assert seen is not None
    assert {card.name for card in seen.cards} == {f"simulated {name}"}
    assert (seen.torch, seen.cuda, seen.internet) == ("2.9.0+cu128", "12.8", False)
    assert seen.disk_mib > 0


def test_file_that_describes_no_hardware_is_wrong_usage(place: Path) -> None:
    """A broken file ends the kernel with exit code 2 and a sentence, before anything is announced."""
    (place.parent / "hardware.json").write_text("{")
    write_build(SPEC, place.parent / "build", REF)
    done = subprocess.run(
        [sys.executable, str(place.parent / "build" / "kernel.py")],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "describes no hardware" in done.stdout
