"""A run's table in a document is the one that its raw log gives, line by line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from builder import tables
from builder.runs import Run
from tests.command import ROOT, run_ferry
from tests.host.test_publishing import resealed

RUN = "20261130-143908-d535ad"


@pytest.fixture
def document(monkeypatch: pytest.MonkeyPatch) -> str:
    """A document with a table of a committed run, whose line 6 is that of shape 1."""
    monkeypatch.setenv("FERRY_RUNS", str(ROOT / "runs"))
    return f"# Results\n\n<!-- begin: run {RUN} -->\n{tables.table(RUN)}\n<!-- end -->\n\nMore.\n"


def test_a_table_that_the_run_gives_passes(document: str) -> None:
    """Also with another block beside it, which somebody else writes."""
    assert list(tables.misses(f"{document}\n<!-- begin: else -->\n2×\n<!-- end -->\n")) == []


@pytest.mark.parametrize(
    ("before", "after", "line", "said"),
    [
        ("2.523×", "2.533×", 6, "2.533× is stale, the run gives 2.523×"),
        ("Geomean 2.249×", "Geomean 2.349×", 22, "2.349× is stale, the run gives 2.249×"),
        (
            "passed | 4.38 | 1.73",
            "failed_gate | 4.38 | 1.73",
            6,
            "failed_gate is stale, the run gives passed",
        ),
        ("NVIDIA H200, driver", "Tesla T4, driver", 24, "Tesla is stale, the run gives NVIDIA, T4, is stale"),
        ("protocol `official`", "protocol `strict`", 24, "`strict`, is stale, the run gives `official`,"),
    ],
)
def test_what_was_changed_is_named_with_its_line(
    document: str, before: str, after: str, line: int, said: str
) -> None:
    """A digit, a status, a device: the cell is named, with what the run gives."""
    assert document.count(before) == 1
    (found,) = tables.misses(document.replace(before, after))
    assert (found.line, found.sentence.startswith(said)) == (line, True), found


def test_a_lost_line_and_a_lost_run_are_named(document: str) -> None:
    """From the lost line on nothing fits; a run that there is not has no table."""
    lines = document.split("\n")
    found = list(tables.misses("\n".join(lines[:5] + lines[6:])))
    assert found[0].line == 6
    (gone,) = tables.misses(document.replace(f"run {RUN} -->", "run 20260101-000000 -->"))
    assert (gone.line, gone.sentence[:10]) == (3, "no run in ")


def test_docs_writes_the_table(document: str, tmp_path: Path) -> None:
    """What is stale is written anew, and nothing else is touched."""
    path = tmp_path / "a.md"
    path.write_text(document.replace("2.523×", "2.533×").replace("passed", "error"), encoding="utf-8")
    assert run_ferry("audit", str(path)).returncode == 3
    assert run_ferry("docs", str(path)).returncode == 0
    assert path.read_text(encoding="utf-8") == document


def test_show_leads_from_a_line_of_a_table_to_raw_samples(document: str, tmp_path: Path) -> None:
    """A row to its own, the geomean to its rows; a line that is stale leads nowhere."""
    path = tmp_path / "a.md"
    path.write_text(document.replace("2.454×", "2.464×"), encoding="utf-8")
    shown = run_ferry("show", f"{path}:6")
    assert "s01-sdpa-float32-official-cf1cbb of run" in shown.stderr, shown.stderr
    assert "log.raw:19  baseline round 0" in shown.stderr, shown.stderr
    (total,) = json.loads(run_ferry("show", f"{path}:22", "--json").stdout)["figures"]
    assert (total["marker"], len(total["rows"])) == (f"run {RUN}", 13)
    stale = run_ferry("show", f"{path}:7")
    assert (stale.returncode, f"is not what run {RUN} gives" in stale.stderr) == (2, True), stale.stderr


def test_simulated_rows_are_never_shown_as_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run on made-up hardware cannot become a table."""
    folder = Path(shutil.copytree(ROOT / "runs" / "published" / RUN, tmp_path / RUN))
    for log in Run(folder).logs():
        log.write_text(resealed(log.read_text("utf-8")), "utf-8")
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path))
    (found,) = tables.misses(f"<!-- begin: run {RUN} -->\n<!-- end -->\n")
    assert "rows of a simulated device" in found.sentence
