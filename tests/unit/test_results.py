"""Rows of logs whose figures or texts are odd."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from builder import results
from builder.records import read_records
from builder.results import Row
from harness.events import Body, CaseDone, End, Samples, Started, pack_ns
from harness.shapes import Case
from tests.unit.written_logs import CASES, GATE, lines_of, opened

CASE = CASES[0]


def row_of(folder: Path, *bodies: Body, case: Case = CASE) -> Row:
    """Return the row of a log of one case."""
    lines = lines_of([*opened([case]), Started(case.id, 0), *bodies, End("complete", {}, 1.0)])
    (folder / "log").write_text("\n".join(lines))
    [row] = results.rows(read_records([folder / "log"]))
    return row


def passed(case: Case, baseline: Sequence[int], candidate: Sequence[int]) -> list[Body]:
    """The events of a case that passed with these times in one round."""
    return [
        Samples(case.id, "baseline", 0, 0, pack_ns(baseline)),
        Samples(case.id, "candidate", 0, 0, pack_ns(candidate)),
        CaseDone(case.id, 0, "passed", gate=GATE, samples=len(baseline) + len(candidate)),
    ]


@pytest.mark.parametrize(("baseline", "candidate"), [([0, 0], [0, 0]), ([5], [0]), ([0], [5])])
def test_no_speed_comes_from_no_time(tmp_path: Path, baseline: list[int], candidate: list[int]) -> None:
    """A sample of 0 ns leaves the case unknown and say so."""
    row = row_of(tmp_path, *passed(CASE, baseline, candidate))
    assert (row.status, row.speedup) == ("unknown", None)
    assert "0 ns" in row.error


def test_no_case_passes_without_a_gate(tmp_path: Path) -> None:
    """A result that says `passed` and nothing of its gate is no result."""
    *samples, _ = passed(CASE, [5], [4])
    row = row_of(tmp_path, *samples, CaseDone(CASE.id, 0, "passed", samples=2))
    assert (row.status, row.speedup) == ("unknown", None)
    assert "no gate or no samples" in row.error


def test_no_case_passes_without_samples(tmp_path: Path) -> None:
    """A result that says `passed` and has no times is no result."""
    row = row_of(tmp_path, CaseDone(CASE.id, 0, "passed", gate=GATE))
    assert (row.status, row.speedup) == ("unknown", None)
    assert "no gate or no samples" in row.error


def test_one_sample_is_a_round(tmp_path: Path) -> None:
    """5 ns against 4 ns is 1.25 times as fast; of one round nobody knows the noise."""
    row = row_of(tmp_path, *passed(CASE, [5], [4]))
    assert (row.status, row.speedup_low, row.speedup_high) == ("passed", 1.25, 1.25)
    assert row.speedup == pytest.approx(1.25)
    assert row.noise_floor is None


def test_options_that_are_unknown_here_cost_nothing(tmp_path: Path) -> None:
    """Harness arguments of another version end neither the parse nor the process."""
    case = replace(CASE, harness_args=("--nope", "3"))
    row = row_of(tmp_path, *passed(case, [5], [4]), case=case)
    assert (row.status, row.gate_share) == ("passed", GATE.gate_share)


def test_the_margin_is_that_of_the_tolerance_in_force(tmp_path: Path) -> None:
    """An absolute tolerance of 0.001 over a worst error of 0.00025 is a margin of 4."""
    *samples, done = passed(CASE, [5], [4])
    assert isinstance(done, CaseDone)
    row = row_of(tmp_path, *samples, replace(done, gate=replace(GATE, max_abs=0.00025, atol=0.001)))
    assert row.margin == pytest.approx(4.0)


def test_a_text_reaches_the_csv_without_control_characters(tmp_path: Path) -> None:
    """Whatever a model prints as its error, a CSV that is shown on a terminal does nothing to it."""
    text = 'a "quoted", line\r\n\x1b]0;title\x07second\x00 line\x1b[31m'
    row = row_of(tmp_path, CaseDone(CASE.id, 0, "error", error=text, flags={"\x1b[2J": "x"}))
    written = results.results_csv([row])
    assert written.replace("\n", "").isprintable()
    [read] = csv.DictReader(io.StringIO(written, newline=""))
    assert read["error"] == 'a "quoted", line\nsecond line'
    assert read["flags"] == "=x"
