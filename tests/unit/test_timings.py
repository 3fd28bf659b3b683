"""What a row says of samples that were taken in turns, and of the baseline against itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from builder import results
from builder.records import Records, read_records
from builder.results import Row
from builder.stats import Word
from harness.events import CaseDone, End, Samples, Started, pack_ns
from harness.shapes import SHAPES, Case
from tests.unit.written_logs import GATE, lines_of, opened

CASE = Case(SHAPES["t01"], "sdpa", protocol="strict")


def records_of(folder: Path, sides: Mapping[str, Sequence[Sequence[int]]]) -> Records:
    """The records of a log of one case with these blocks, in nanoseconds, by side."""
    samples = [
        Samples(
            CASE.id, side, number, 0, pack_ns(ns), pack_ns([len(sides) * turn for turn in range(len(ns))])
        )
        for side, blocks in sides.items()
        for number, ns in enumerate(blocks)
    ]
    total = sum(len(ns) for blocks in sides.values() for ns in blocks)
    done = CaseDone(CASE.id, 0, "passed", gate=GATE, samples=total)
    lines = lines_of([*opened([CASE]), Started(CASE.id, 0), *samples, done, End("complete", {}, 1.0)])
    (folder / "log").write_text("\n".join(lines))
    return read_records([folder / "log"])


def row_of(folder: Path, **sides: Sequence[Sequence[int]]) -> Row:
    """The row of such a log."""
    [row] = results.rows(records_of(folder, sides))
    return row


def test_turns_are_compared_in_pairs(tmp_path: Path) -> None:
    """Times that drift tenfold over a block, and are halved in each turn, are a speed-up of exactly 2."""
    drifting = [list(range(1000, 11_000, 500))] * 2
    row = row_of(tmp_path, baseline=drifting, candidate=[[ns // 2 for ns in block] for block in drifting])
    assert (row.speedup, row.speedup_low, row.speedup_high) == (2.0, 2.0, 2.0)
    assert (row.verdict, row.is_told) == (Word.FASTER, True)


def test_what_the_baseline_differs_from_itself_by_is_noise(tmp_path: Path) -> None:
    """A candidate 5 % faster is not called so where the baseline is 6 % faster than itself."""
    steady, faster, fastest = [[1060] * 20], [[1010] * 20], [[1000] * 20]
    alone = row_of(tmp_path, baseline=steady, candidate=faster)
    doubted = row_of(tmp_path, baseline=steady, candidate=faster, baseline_again=fastest)
    assert (alone.verdict, alone.noise_floor) == (Word.FASTER, 0.0)
    assert doubted.verdict is Word.UNTOLD
    assert doubted.noise_floor == pytest.approx(0.06)
    assert doubted.flags["aa"] == "1.06"


def test_a_row_has_quantiles_and_what_came_before(tmp_path: Path) -> None:
    """The candidate's 10th and 90th percentile and the baseline's earlier median are in the flags."""
    row = row_of(
        tmp_path,
        baseline=[[5_000_000] * 11],
        candidate=[[1_000_000 * n for n in range(1, 12)]],
        baseline_before=[[7_000_000] * 3],
    )
    assert [row.flags[name] for name in ("p10_ms", "p90_ms", "baseline_before_ms")] == ["2", "10", "7"]


def test_samples_csv_has_the_place_in_the_block(tmp_path: Path) -> None:
    """Each sample's line says which block, turn and place it was."""
    records = records_of(tmp_path, {"baseline": [[50, 60], [70]], "candidate": [[5, 6], [7]]})
    assert results.samples_csv(records).splitlines()[:4] == [
        "case_id,side,round,index,position,ns",
        f"{CASE.id},baseline,0,0,0,50",
        f"{CASE.id},baseline,0,1,2,60",
        f"{CASE.id},baseline,1,0,0,70",
    ]


def test_places_that_do_not_fit_the_samples_are_no_result(tmp_path: Path) -> None:
    """A block with two samples and one place leaves the case unknown and says so."""
    case = CASE
    samples = Samples(case.id, "baseline", 0, 0, pack_ns([5, 6]), pack_ns([0]))
    done = CaseDone(case.id, 0, "passed", gate=GATE, samples=2)
    lines = lines_of([*opened([case]), Started(case.id, 0), samples, done, End("complete", {}, 1.0)])
    (tmp_path / "log").write_text("\n".join(lines))
    [row] = results.rows(read_records([tmp_path / "log"]))
    assert row.status == "unknown"
    assert "2, with 1 places" in row.error
