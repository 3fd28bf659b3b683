"""A sweep over a farm on which much goes wrong, with the real scheduler, run folder and logs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from builder import crossing
from tests.unit.simulated_places import Luck, play


def test_every_case_has_one_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that die, straggle or are not heard of cost time and no result; what failed is not run again."""
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path))
    played = play(40, 4, Luck(dies=0.05, fails=0.1, straggles=0.2, unheard=0.05))
    rows = crossing.parse(played.run).rows
    assert len(rows) == len({row.case_id for row in rows}) == 40
    failed = len(played.farm.failing)
    statuses = Counter(row.status for row in rows)
    assert statuses == {"passed": 40 - failed, "failed_gate": failed}
    runs = Counter(case.id for job in played.farm.jobs.values() for case in job.cases[: job.done])
    assert all(runs[case] <= 2 for case in played.farm.failing)
    assert played.run.is_finished


def test_nothing_goes_wrong_and_little_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without bad luck each case is run once, and the sweep ends near the best possible."""
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path))
    played = play(40, 4, Luck(0, 0, 0, 0))
    runs = Counter(case.id for job in played.farm.jobs.values() for case in job.cases)
    assert set(runs.values()) == {1}
    assert played.took_s <= 1.2 * played.best_s
