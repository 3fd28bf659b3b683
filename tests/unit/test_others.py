"""Published figures of others: kept with their source, and set beside rows of the same card alone."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from builder.others import beside, published
from builder.reports.html import report
from harness.shapes import SHAPES
from tests.unit.measured_logs import S01, Measured, reading_of
from tests.unit.written_logs import CARD

T4 = replace(CARD, name="Tesla T4")


def test_every_figure_has_a_source_and_a_day() -> None:
    """Each names its file, its day, and shapes that exist, with a time before and one after."""
    for figures in published():
        assert figures.source.startswith("https://") and figures.where and figures.protocol
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", figures.date)
        assert set(figures.ms) <= set(SHAPES)
        assert all(0 < after < before for before, after in figures.ms.values())


def test_a_run_on_such_a_card_is_set_beside_them(tmp_path: Path) -> None:
    """Its time over theirs, and both speed-ups; the page says that nothing of it was measured by us."""
    run = reading_of(tmp_path / "log", Measured(S01, 9672.7, 1736.3), device=T4)
    [(figures, [pair])] = beside(run.rows)
    assert figures.date == "2026-10-09" and pair.share == pytest.approx(0.5, rel=0.01)
    assert pair.cells[2] == "2.79×"
    page = report([run])
    assert "Beside what others published" in page and "Not measured by us" in page and figures.where in page


def test_no_other_card_is(tmp_path: Path) -> None:
    """A run on an H200 has no such part."""
    run = reading_of(tmp_path / "log", Measured(S01), device=replace(CARD, name="NVIDIA H200"))
    assert beside(run.rows) == []
    assert "Beside what others published" not in report([run])
