"""The champion of a shape and device is the best row that counts, and its margin knows of noise."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from builder import best
from builder.best import Champion
from builder.retracting import retract
from builder.runs import Run
from builder.stats import Word
from harness.events import SIMULATED
from tests.command import ROOT, run_ferry

SDPA, COMPILED = "20261130-143908-d535ad", "20261130-134230-f2897d"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runs' root with two routes on the contest's shapes, one of them also published."""
    for run_id in (SDPA, COMPILED):
        shutil.copytree(ROOT / "runs" / "published" / run_id, tmp_path / run_id)
    shutil.copytree(tmp_path / SDPA, tmp_path / "published" / SDPA)
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path))
    return tmp_path


def of_shape(key: str, across_harness: bool = True) -> Champion:
    """The only champion of a shape; the two runs are of two harnesses."""
    [found] = best.champions(lambda cells: cells["shape"] == key, across_harness)
    return found


def edit(folder: Path, case: str, **cells: str) -> None:
    """Give some cells of a case's row other values."""
    path = folder / "results.csv"
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        row.update(cells if row["shape"] == case else {})
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def test_the_champion_leads_by_a_margin_over_another_candidate(root: Path) -> None:
    """On shape 13 compiling is faster beyond the noise; on shape 1 the two cannot be told apart."""
    far = of_shape("s13")
    assert far.best.cells["route"] == "compiled"
    assert far.rival is not None
    assert far.rival.cells["route"] == "sdpa"
    assert far.margin == pytest.approx(3.64696 / 3.32842, rel=1e-3)
    assert far.word is Word.FASTER
    near = of_shape("s01")
    assert (near.best.cells["route"], near.word is Word.FASTER) == ("sdpa", False)


def test_only_rows_of_one_harness_are_rivals_unless_told(root: Path) -> None:
    """The harness that measured last ranks alone, as `compare` asks for, and what is left out is counted."""
    found = of_shape("s13", across_harness=False)
    assert (found.best.cells["route"], found.rival, found.left_out) == ("sdpa", None, 1)
    shown = run_ferry("best", "--shape", "13").stderr
    assert "left out: 1 rows of earlier harnesses; --across harness" in shown
    assert "compiled" in run_ferry("best", "--shape", "13", "--across", "harness").stderr


def test_what_does_not_count_is_no_champion(root: Path) -> None:
    """A retracted, a failed and a simulated row give way, and a damaged run takes nobody with it."""
    [case] = [case for case in Run(root / COMPILED).spec.cases if case.shape.key == "s13"]
    retract(Run(root / COMPILED), case.id, "another process was on the card")
    edit(root / COMPILED, "s11", status="failed_gate")
    edit(root / COMPILED, "s08", device=f"{SIMULATED}NVIDIA H200", speedup="99")
    for key in ("s13", "s11", "s08"):
        assert of_shape(key).best.cells["route"] == "sdpa"
        assert of_shape(key).rival is None
    (root / COMPILED / "results.csv").write_text("status,device\npassed,H200\n")
    assert {champion.best.cells["route"] for champion in best.champions(across_harness=True)} == {"sdpa"}


def test_other_devices_and_settings_are_no_rivals(root: Path) -> None:
    """Each device has a champion of its own."""
    edit(root / COMPILED, "s13", device="Tesla T4")
    found = best.champions(lambda cells: cells["shape"] == "s13")
    assert {champion.best.cells["device"] for champion in found} == {"NVIDIA H200", "Tesla T4"}


def test_an_unsealed_champion_is_marked(root: Path) -> None:
    """It is listed with the reason, for people and programs."""
    edit(root / COMPILED, "s13", flags="unsealed=no end;p10_ms=1")
    shown = run_ferry("best", "--shape", "13", "--device", "h200", "--across", "harness").stderr
    assert "unsealed: no end" in shown
    assert f"sdpa of {SDPA}" in shown
    [document] = json.loads(run_ferry("best", "--shape", "s13", "--across", "harness", "--json").stdout)[
        "best"
    ]
    assert (document["best"]["unsealed"], document["word"]) == ("no end", "faster")


def test_without_runs_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty root is no error."""
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path / "none"))
    done = run_ferry("best")
    assert done.returncode == 0
    assert "no run has a row that counts" in done.stderr
