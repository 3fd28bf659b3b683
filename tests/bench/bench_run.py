"""What `ferry run` adds to the kernel that it runs: at most 5 % and one second."""

from __future__ import annotations

import itertools
from pathlib import Path
from statistics import median

from tests.bench.figures import Figure, interleave, wall_s

SUITE = ("--suite", "smoke", "--route", "eager")


def measure(folder: Path) -> list[Figure]:
    """Run suite `smoke` by `ferry run` and as a bare `python kernel.py`, in turns."""
    wall_s("-m", "builder", "build", *SUITE, "-o", str(folder / "kernel"), cwd=folder)
    fresh = itertools.count()

    def bare() -> float:
        """The kernel alone, in a new working folder each time: one that holds results goes on from them."""
        work = folder / f"work-{next(fresh)}"
        work.mkdir()
        return wall_s(str(folder / "kernel" / "kernel.py"), cwd=work)

    samples = interleave(
        {"python kernel.py": bare, "ferry run": lambda: wall_s("-m", "builder", "run", *SUITE, cwd=folder)},
        rounds=3,
    )
    kernel_s, run_s = median(samples["python kernel.py"]), median(samples["ferry run"])
    return [
        Figure("ferry run - python kernel.py", run_s - kernel_s, "s", 0.05 * kernel_s + 1, samples=samples)
    ]
