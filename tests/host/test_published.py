"""The runs kept as evidence are whole, and their figures come from their raw logs."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from builder.verifying import verify
from harness.events import SIMULATED

PUBLISHED = Path(__file__).parents[2] / "runs" / "published"
RUNS = (PUBLISHED / "INDEX").read_text(encoding="utf-8").split()


@pytest.mark.parametrize("run_id", RUNS)
def test_a_published_run_verifies(run_id: str) -> None:
    """Manifest, log, kernel and every derived file agree, and what cannot be vouched for is said."""
    verdict = verify(PUBLISHED / run_id)
    assert verdict.found == []
    unfinished = "the run is not whole: what is missing has no result" in verdict.caveats
    assert verdict.exit_code == (4 if unfinished else 0)
    assert verdict.caveats


@pytest.mark.parametrize("run_id", RUNS)
def test_what_is_published_was_measured_on_a_gpu(run_id: str) -> None:
    """No row of a published run comes from a CPU or from hardware that a file made up."""
    with (PUBLISHED / run_id / "results.csv").open(encoding="utf-8", newline="") as stream:
        devices = [row["device"] for row in csv.DictReader(stream)]
    assert devices
    assert not [device for device in devices if device.startswith(("cpu", SIMULATED))]
