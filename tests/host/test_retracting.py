"""A figure that was taken back stays listed and counts nowhere."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from builder import compare, index, manifest, reading, retractions, tables
from builder.errors import UsageError
from builder.retracting import retract
from builder.runs import Run
from builder.verifying import verify
from tests.command import ROOT, run_ferry

RUN = "20261130-134228-5a8555"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runs' root with a run of one's own and its published copy."""
    shutil.copytree(ROOT / "runs" / "published" / RUN, tmp_path / "published" / RUN)
    shutil.copytree(tmp_path / "published" / RUN, tmp_path / RUN)
    (tmp_path / RUN / manifest.NAME).unlink()
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path))
    return tmp_path


def first_case(root: Path) -> str:
    """The id of the run's first case."""
    return Run(root / RUN).spec.cases[0].id


def test_a_retraction_is_only_ever_added(root: Path) -> None:
    """Each stands on a line of its own with its time, and none can be made twice or taken back."""
    case_id = first_case(root)
    assert len(retract(Run(root / RUN), case_id, "a neighbour")) == 2
    before = (root / RUN / retractions.FILE).read_bytes()
    with pytest.raises(UsageError, match="already"):
        retract(Run(root / RUN), case_id, "again")
    retract(Run(root / RUN), "", "the wrong card")
    after = (root / RUN / retractions.FILE).read_bytes()
    assert after.startswith(before)
    entries = [json.loads(line) for line in after.splitlines()]
    assert [(entry["case_id"], entry["because"]) for entry in entries] == [
        (case_id, "a neighbour"),
        ("", "the wrong card"),
    ]
    with pytest.raises(UsageError, match="already"):
        retract(Run(root / RUN), case_id, "again")


@pytest.mark.parametrize(("case", "because"), [("", "  "), ("nothing", "x"), ("t0", "x")])
def test_a_retraction_names_one_case_and_a_reason(root: Path, case: str, because: str) -> None:
    """Anything else is a usage error that changes nothing."""
    with pytest.raises(UsageError):
        retract(Run(root / RUN), case, because)
    assert not (root / RUN / retractions.FILE).exists()


def test_the_published_copy_says_so_and_still_verifies(root: Path) -> None:
    """Its manifest names the retraction; one that was wrong elsewhere stays wrong."""
    retract(Run(root / RUN), first_case(root), "a neighbour")
    verdict = verify(root / "published" / RUN)
    assert verdict.found == []
    assert any("a neighbour" in sentence for sentence in verdict.caveats)
    (root / "published" / RUN / "results.csv").write_text("altered")
    retract(Run(root / RUN), "", "all of it")
    assert any("results.csv" in sentence for sentence in verify(root / "published" / RUN).found)


def test_a_damaged_retraction_brings_no_figure_back(root: Path) -> None:
    """A line that cannot be read takes the whole run back."""
    (root / RUN / retractions.FILE).write_bytes(b'{"case_id": \xff\n')
    assert retractions.read(root / RUN).why("any")


def test_tables_listings_and_comparisons_leave_it_out(root: Path) -> None:
    """The row is shown with its reason; geomeans, counts and verdicts do without it."""
    case_id = first_case(root)
    whole = run_ferry("parse", RUN).stderr
    told = json.loads(run_ferry("retract", f"{RUN}/{case_id}", "--because", "a neighbour", "--json").stdout)
    assert (told["run_id"], told["case"], len(told["files"])) == (RUN, case_id, 2)
    shown = run_ferry("parse", RUN).stderr
    assert f"retracted: {case_id}: a neighbour" in shown
    assert "12 passed" in whole
    assert "11 passed" in shown
    assert json.loads(run_ferry("parse", RUN, "--json").stdout)["retracted"] == {case_id: "a neighbour"}
    assert {entry.retracted for entry in index.entries(root)} == {case_id}
    found = compare.compare(reading.read(RUN), reading.read(RUN))
    refused = [pair.a.row.case_id for pair in found.pairs if "retracted: a neighbour" in pair.refusal]
    assert refused == [case_id]


def test_a_documents_table_marks_the_row_and_leaves_it_out(root: Path) -> None:
    """A table made anew has the row, its new status, and a geomean without it."""
    whole = tables.table(RUN)
    retract(Run(root / RUN), first_case(root), "a neighbour")
    part = tables.table(RUN)
    assert "12 of 12 rows" in whole
    assert "11 of 12 rows" in part
    assert part.count("| retracted |") == 1
    assert f"retracted: {first_case(root)}: a neighbour." in part
    retract(Run(root / RUN), "", "all of it")
    assert "No row has a speed-up that counts." in tables.table(RUN)
