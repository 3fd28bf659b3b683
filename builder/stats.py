"""From raw samples to figures: medians, the interval of the speed-up, the noise floor. Host only."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import median

RESAMPLES = 400
CONFIDENCE = 0.95

Rounds = Sequence[Sequence[int]]


def pooled_median(rounds: Rounds) -> float:
    """Return the median of all samples of all rounds, in the samples' unit."""
    return median([value for samples in rounds for value in samples])


def speedup_interval(baseline: Rounds, candidate: Rounds, seed: str) -> tuple[float, float]:
    """Return a 95 % interval of baseline median / candidate median.

    A circular block bootstrap: neighbouring calls share the clock and the cache, so whole blocks of about
    sqrt(n) consecutive samples of a round are drawn (Politis and Romano, 1992). Seeded, hence reproducible.
    """
    draw = random.Random(seed)  # noqa: S311 - statistics, not a secret
    ratios = sorted(
        median(_resample(baseline, draw)) / median(_resample(candidate, draw)) for _ in range(RESAMPLES)
    )
    tail = (1 - CONFIDENCE) / 2
    return ratios[round(tail * (RESAMPLES - 1))], ratios[round((1 - tail) * (RESAMPLES - 1))]


def _resample(rounds: Rounds, draw: random.Random) -> list[int]:
    drawn: list[int] = []
    for samples in rounds:
        size = math.isqrt(len(samples)) or 1
        ring = [*samples, *samples[:size]]
        taken: list[int] = []
        while len(taken) < len(samples):
            start = draw.randrange(len(samples))
            taken += ring[start : start + size]
        drawn += taken[: len(samples)]
    return drawn


def noise_floor(baseline: Rounds) -> float | None:
    """Return how far one round's median strays from the pooled one, as a share; None for a single round.

    The baseline's code does not change between rounds, so whatever moves its median is noise.
    """
    if len(baseline) < 2:
        return None
    whole = pooled_median(baseline)
    return max(abs(median(samples) / whole - 1) for samples in baseline)


def geomean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive values."""
    return math.exp(sum(map(math.log, values)) / len(values))
