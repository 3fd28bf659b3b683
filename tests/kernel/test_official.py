"""The contest's real shapes on a CPU, judged by our writing of the contract and by somebody else's."""

from __future__ import annotations

import csv
import hashlib

import pytest

from builder import runs
from tests.command import ROOT, run_ferry

INDEPENDENT = ROOT / "tests" / "harnesses" / "independent.py"
SHORT = ("--warmup", "1", "--repeats", "3", "--rounds", "1")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("harness", [(), ("--harness", str(INDEPENDENT))], ids=["ours", "independent"])
def test_the_official_shapes_pass_on_a_cpu(harness: tuple[str, ...]) -> None:
    """Ten of the 14 shapes at their real size end `passed`, and parse to the same bytes again."""
    done = run_ferry("run", "--suite", "official", "--shapes", "1-5,7,9-12", *SHORT, *harness)
    assert done.returncode == 0, done.stderr
    [run] = runs.all_runs()
    text = (run.folder / "results.csv").read_bytes()
    rows = list(csv.DictReader(text.decode().splitlines()))
    assert len(rows) == 10
    assert {row["status"] for row in rows} == {"passed"}
    assert {row["protocol"] for row in rows} == {"short"}
    if harness:
        digest = hashlib.sha256(INDEPENDENT.read_bytes()).hexdigest()
        assert {row["harness_sha256"] for row in rows} == {digest}
    assert run_ferry("parse", run.id).returncode == 0
    assert (run.folder / "results.csv").read_bytes() == text
