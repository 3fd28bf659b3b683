"""Two versions of a model in one sitting, by the real command."""

from __future__ import annotations

import csv
from pathlib import Path

from builder import runs
from tests.command import run_ferry
from tests.host.test_opponents import write_package

HONEST = """

class UserOptimizedTransformer(BaselineTransformer):
    def forward(self, x, valid_token_mask=None):
        from pack.part import VERSION

        for _ in range(VERSION):
            y = super().forward(x, valid_token_mask)
        return y
"""


def test_both_versions_are_timed_in_turns_and_one_verdict_is_given(tmp_path: Path) -> None:
    """A version that computes everything nine times is told from one that does so once; both are gated."""
    for folder, version in (("new", 1), ("old", 9)):
        package = write_package(tmp_path / folder, version)
        with (package / "__init__.py").open("a") as file:
            file.write(HONEST)
    counts = ("--warmup", "1", "--repeats", "10", "--rounds", "2")
    models = ("--model", str(tmp_path / "new" / "pack"), "--against", str(tmp_path / "old" / "pack"))
    done = run_ferry("run", "--shapes", "1", *models, *counts)
    assert done.returncode == 0, done.stderr
    with (runs.all_runs()[0].folder / "results.csv").open(encoding="utf-8", newline="") as stream:
        [row] = csv.DictReader(stream)
    flags = dict(pair.split("=", 1) for pair in row["flags"].split(";"))
    assert (row["protocol"], row["status"], flags["against_gate_share"]) == ("strict", "passed", "0")
    assert flags["vs_against_verdict"] == "faster"
    assert 4 < float(flags["vs_against"]) < 14
    assert "against pack: " in done.stdout + done.stderr
