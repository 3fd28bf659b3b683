"""How long people wait for `ferry --help`: at most four times a bare interpreter's start."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from tests.bench.figures import Figure, interleave, wall_s


def measure(folder: Path) -> list[Figure]:
    """Start both, one after the other, twenty times."""
    samples = interleave(
        {
            "python": lambda: wall_s("-c", "pass", cwd=folder),
            "ferry --help": lambda: wall_s("-m", "builder", "--help", cwd=folder),
        },
        rounds=20,
    )
    ratio = median(samples["ferry --help"]) / median(samples["python"])
    return [Figure("ferry --help / bare python", ratio, "x", 4.0, samples=samples)]
