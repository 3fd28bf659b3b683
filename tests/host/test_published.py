"""The runs kept as evidence are whole, and their figures come from their raw logs."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest

from builder import manifest
from builder.verifying import verify
from harness.events import SIMULATED
from tests.command import run_ferry

PUBLISHED = Path(__file__).parents[2] / "runs" / "published"
RUNS = (PUBLISHED / "INDEX").read_text(encoding="utf-8").split()
SMALL = "20261130-134228-5a8555"


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


def test_a_parse_in_place_takes_the_manifest_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made anew is in the manifest, nothing else is written, and a changed log stays found."""
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path))
    evidence = Path(shutil.copytree(PUBLISHED / SMALL, tmp_path / "published" / SMALL))
    whole = manifest.digests(evidence)
    for name in ("results.csv", "parts/1/events.jsonl"):  # as an earlier parser would have written them
        (evidence / name).write_text("earlier\n", encoding="utf-8")
        manifest.relist(evidence, name)
    done = run_ferry("parse", SMALL)
    assert "MANIFEST follows parts/1/events.jsonl, results.csv" in done.stderr
    assert (manifest.digests(evidence), verify(evidence).found) == (whole, [])
    assert "MANIFEST" not in run_ferry("parse", SMALL).stderr
    with (evidence / "parts" / "1" / "log.raw").open("a") as log:
        log.write("a word\n")
    run_ferry("parse", SMALL)
    assert any("parts/1/log.raw" in sentence for sentence in verify(evidence).found)
