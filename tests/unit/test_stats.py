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
