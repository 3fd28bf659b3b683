"""What runs that cross to a Slurm have in common."""

from __future__ import annotations

import csv

from builder.runs import Run

SHORT = ("--route", "sdpa", "--warmup", "1", "--repeats", "3", "--rounds", "1", "--no-rehearsal")
ON_CPU = ("--backend", "slurm:short", "--accelerator", "cpu")
PROFILE = """
[backends.slurm.short]
partition = "gpu"
python = "{python}"
scratch = "{scratch}"
types = {{ t4 = "t4" }}
poll = "1s"
time_limit = "1h"
"""


def rows(run: Run) -> list[dict[str, str]]:
    """The rows of a run."""
    return list(csv.DictReader((run.folder / "results.csv").read_text(encoding="utf-8").splitlines()))
