"""What a benchmark hands back, and how two sides are timed fairly."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Figure:
    """One measured number against its limit; `samples` are the sides' raw values, in seconds unless named."""

    name: str
    value: float
    unit: str
    limit: float
    at_most: bool = True
    samples: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether the number is on the right side of its limit."""
        return self.value <= self.limit if self.at_most else self.value >= self.limit

    @property
    def sides(self) -> str:
        """Minimum and median of each side, for people."""
        return "; ".join(
            f"{side} {min(values):.3g}/{median(values):.3g}" for side, values in self.samples.items()
        )


def interleave(sides: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Call every side once a round, in turns at going first, so that a slow minute hits all alike."""
    samples: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(rounds):
        for side in sorted(sides, reverse=turn % 2 == 1):
            samples[side].append(sides[side]())
    return samples


def wall_s(*arguments: str, cwd: Path) -> float:
    """Seconds that this Python takes with these arguments, in a folder and an environment of the bench's own.

    Raises CalledProcessError, with what it printed, when it does not end in success.
    """
    keep = {name: value for name, value in os.environ.items() if not name.startswith(("FERRY_", "LEVER_"))}
    env = {**keep, "PYTHONPATH": str(ROOT), "FERRY_RUNS": str(cwd / "runs")}
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=cwd, env=env, check=True, capture_output=True)
    return time.perf_counter() - began
