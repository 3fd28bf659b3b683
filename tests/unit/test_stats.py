"""The statistics, against figures worked by hand and against what a bootstrap must do."""

from __future__ import annotations

import random

import pytest

from builder import stats


def test_pooled_median_pools_all_rounds() -> None:
    """The median is taken over the samples of all rounds together, as the contest does."""
    assert stats.pooled_median([[1, 2, 3], [10, 20, 30]]) == 6.5
    assert stats.pooled_median([[5], [7], [100]]) == 7


def test_noise_floor_is_the_farthest_round() -> None:
    """Rounds with medians 10, 10 and 12 around a pooled median of 10 stray by 20 %."""
    assert stats.noise_floor([[10, 10, 10], [10, 10, 10], [12, 12, 12]]) == pytest.approx(0.2)
    assert stats.noise_floor([[10, 11]]) is None


def test_geomean_of_two_and_eight_is_four() -> None:
    """The geometric mean of 2 and 8 is 4."""
    assert stats.geomean([2.0, 8.0]) == pytest.approx(4.0)


def test_interval_of_constant_samples_is_a_point() -> None:
    """Samples without spread leave no doubt about their ratio."""
    found = stats.compare([[300] * 9] * 2, [[100] * 9] * 2, "case", paired=False)
    assert (found.ratio, found.low, found.high) == (3.0, 3.0, 3.0)


def test_interval_is_reproducible_and_depends_on_the_case() -> None:
    """The same samples and case give the same interval; another case draws otherwise."""
    draw = random.Random(1)
    baseline = [[draw.randint(900, 1100) for _ in range(50)] for _ in range(3)]
    candidate = [[draw.randint(400, 600) for _ in range(50)] for _ in range(3)]
    first = stats.compare(baseline, candidate, "s01", paired=False)
    assert first == stats.compare(baseline, candidate, "s01", paired=False)
    assert first != stats.compare(baseline, candidate, "s02", paired=False)


def test_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """Of 100 experiments with a true ratio of 2, the 95 % interval misses it in few."""
    draw = random.Random(7)
    missed = 0
    for experiment in range(100):
        baseline = [[round(draw.gauss(20_000, 800)) for _ in range(40)] for _ in range(3)]
        candidate = [[round(draw.gauss(10_000, 400)) for _ in range(40)] for _ in range(3)]
        found = stats.compare(baseline, candidate, str(experiment), paired=False)
        missed += not found.low <= 2.0 <= found.high
    assert missed <= 12
