"""From raw samples to figures: medians, intervals, the noise floor, whether two sides differ. Host only."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, median

RESAMPLES = 400
CONFIDENCE = 0.95
# A difference is called one when it is beyond twice its interval's half-width: one in some ten thousand
# comparisons of equals is, where it would be one in twenty at the interval's end.
SURE = 2.0
# Two builds of the same code differ by so much: where the memory lies, which process it was.
FINEST = 0.005
# What one who measures wants to see; where noise hides more than this, equals cannot be told.
WORTH = 0.03

Rounds = Sequence[Sequence[int]]


class Word(StrEnum):
    """What a comparison comes to, said of the second side."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    UNTOLD = "cannot tell"


@dataclass(frozen=True)
class Comparison:
    """The first side's time over the second's, its 95 % interval, and the noise floor as a share.

    `floor` is None where one round says nothing of it.
    """

    ratio: float
    low: float
    high: float
    floor: float | None

    @property
    def threshold(self) -> float:
        """The share by which the sides must differ to be called different."""
        half_width = (math.log(self.high) - math.log(self.low)) / 2
        return max(self.floor or 0.0, math.expm1(SURE * half_width), FINEST)

    @property
    def word(self) -> Word:
        """The decision: what lies within the noise is no difference, and too much noise is no equality."""
        distance = math.log(self.ratio)
        if abs(distance) > math.log1p(self.threshold):
            return Word.FASTER if distance > 0 else Word.SLOWER
        return Word.SAME if self.threshold <= WORTH else Word.UNTOLD


def compare(first: Rounds, second: Rounds, seed: str, paired: bool) -> Comparison:
    """Compare two sides' times. `paired`: samples of the same number were taken in the same turn.

    The ratio is that of the medians; of paired sides it is the middle of the turns' ratios, so that what
    moves both sides of a turn does not count. The interval is a circular block bootstrap: neighbouring calls
    share the clock and the cache, so whole blocks of about sqrt(n) consecutive samples of a round are drawn
    (Politis and Romano, 1992). Seeded, hence reproducible.
    """
    if paired and list(map(len, first)) == list(map(len, second)):
        return _in_pairs(first, second, seed)
    ratios = resampled(first, second, seed)
    return Comparison(pooled_median(first) / pooled_median(second), *interval(ratios), noise_floor(first))


def resampled(first: Rounds, second: Rounds, seed: str) -> list[float]:
    """Return the ratio of unpaired sides' medians in each of `RESAMPLES` draws, as `compare` takes them."""
    draw = random.Random(seed)  # noqa: S311 - statistics, not a secret
    return [median(_resample(first, draw)) / median(_resample(second, draw)) for _ in range(RESAMPLES)]


def together(found: Sequence[Comparison]) -> Comparison:
    """Return the geometric mean of several cases' ratios as one comparison; their errors are independent."""
    count = len(found)
    ratio = geomean([one.ratio for one in found])
    half = math.sqrt(sum(math.log(one.high / one.low) ** 2 for one in found)) / 2 / count
    floors = [one.floor for one in found if one.floor is not None]
    floor = math.sqrt(sum(floor**2 for floor in floors)) / count if floors else None
    return Comparison(ratio, ratio / math.exp(half), ratio * math.exp(half), floor)


def _in_pairs(first: Rounds, second: Rounds, seed: str) -> Comparison:
    logs = [
        [math.log(a / b) for a, b in zip(ours, theirs, strict=True)]
        for ours, theirs in zip(first, second, strict=True)
    ]
    draw = random.Random(seed)  # noqa: S311 - statistics, not a secret
    ratios = [math.exp(middle(_resample(logs, draw))) for _ in range(RESAMPLES)]
    ratio = math.exp(middle([value for samples in logs for value in samples]))
    return Comparison(ratio, *interval(ratios), halves_apart(first))


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the ends of the 95 % interval of resampled ratios."""
    ordered, tail = sorted(ratios), (1 - CONFIDENCE) / 2
    return ordered[round(tail * (len(ordered) - 1))], ordered[round((1 - tail) * (len(ordered) - 1))]


def _resample(rounds: Sequence[Sequence[float]], draw: random.Random) -> list[float]:
    drawn: list[float] = []
    for samples in rounds:
        size = math.isqrt(len(samples)) or 1
        ring = [*samples, *samples[:size]]
        taken: list[float] = []
        while len(taken) < len(samples):
            start = draw.randrange(len(samples))
            taken += ring[start : start + size]
        drawn += taken[: len(samples)]
    return drawn


def middle(values: Sequence[float]) -> float:
    """Return the mean without the lowest and the highest fifth: nearly the mean's precision, outliers aside.

    Wilcox, Introduction to Robust Estimation, chapter 3.
    """
    ordered = sorted(values)
    cut = len(ordered) // 5
    return fmean(ordered[cut : len(ordered) - cut])


def pooled_median(rounds: Rounds) -> float:
    """Return the median of all samples of all rounds, in the samples' unit."""
    return median([value for samples in rounds for value in samples])


def quantile(rounds: Rounds, q: float) -> float:
    """Return a quantile, q from 0 to 1, of all samples of all rounds, linear between the two nearest."""
    ordered = sorted(value for samples in rounds for value in samples)
    place = q * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def noise_floor(baseline: Rounds) -> float | None:
    """Return how far one round's median strays from the pooled one, as a share; None for a single round.

    The baseline's code does not change between rounds, so whatever moves its median is noise.
    """
    if len(baseline) < 2:
        return None
    whole = pooled_median(baseline)
    return max(abs(median(samples) / whole - 1) for samples in baseline)


def halves_apart(baseline: Rounds) -> float | None:
    """Return how far apart every other sample and the one after it are in the middle, as a share.

    Where the sides take turns call by call, what moves whole rounds moves both; this is what is left.
    None when there are not two samples.
    """
    values = [value for samples in baseline for value in samples]
    logs = [math.log(a / b) for a, b in zip(values[::2], values[1::2], strict=False)]
    return abs(math.expm1(middle(logs))) if logs else None


def geomean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive values."""
    return math.exp(sum(map(math.log, values)) / len(values))
