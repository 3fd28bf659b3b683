"""Whether two sides differ: the decision itself, and how often it is wrong on times that a GPU has taken.

The comparisons of a route with itself are made from the published runs: two neighbouring calls of one side
are a turn, and a coin says which of them stands for which side. That is how `strict` takes its samples.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path

import pytest

from builder import stats
from builder.attempts import Rounds
from builder.records import CaseRecord, read_records
from builder.runs import Run
from builder.stats import Comparison, Word

PUBLISHED = Path(__file__).parents[2] / "runs" / "published"
COMPARISONS = 200
FEWEST_CALLS = 20  # in a round: fewer say little


@pytest.mark.parametrize(
    ("ratio", "low", "high", "floor", "word"),
    [
        (2.0, 1.9, 2.1, 0.02, Word.FASTER),
        (0.9, 0.895, 0.905, None, Word.SLOWER),
        (1.04, 1.03, 1.05, 0.05, Word.UNTOLD),  # inside the floor
        (1.012, 1.002, 1.022, 0.0, Word.SAME),  # beyond its interval, and not beyond twice
        (1.004, 1.0039, 1.0041, 0.0, Word.SAME),  # finer than two builds of one code differ
        (1.1, 1.0, 1.2, 0.0, Word.UNTOLD),
    ],
)
def test_a_difference_is_beyond_the_floor_and_twice_the_interval(
    ratio: float, low: float, high: float, floor: float | None, word: Word
) -> None:
    """What lies within the noise is no difference, and where noise hides 3 % nothing is called equal."""
    assert Comparison(ratio, low, high, floor).word is word


def test_pairs_do_not_see_what_moves_both_sides() -> None:
    """A clock that falls to half its speed midway leaves the paired ratio sharp, the unpaired one vague."""
    draw = random.Random(3)
    clock = [1.0] * 60 + [2.0] * 60
    first = [[round(10_000 * speed * draw.uniform(0.99, 1.01)) for speed in clock]]
    second = [[round(9_500 * speed * draw.uniform(0.99, 1.01)) for speed in clock]]
    paired = stats.compare(first, second, "pairs", paired=True)
    loose = stats.compare(first, second, "pairs", paired=False)
    assert paired.word is Word.FASTER
    assert paired.high - paired.low < 0.01 < 0.1 < loose.high - loose.low


def test_sides_of_different_lengths_are_no_pairs() -> None:
    """Samples that a log has of one side only are compared without pairs."""
    found = stats.compare([[10, 10, 10]], [[5, 5]], "odd", paired=True)
    assert (found.ratio, found.floor) == (2.0, None)


def test_middle_leaves_the_outer_fifths_out() -> None:
    """Of ten values the two lowest and the two highest do not count."""
    assert stats.middle([0, 0, 1, 2, 3, 4, 5, 6, 1000, 1000]) == pytest.approx(3.5)


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


@functools.cache
def records() -> tuple[CaseRecord, ...]:
    """Every case that a GPU has timed well."""
    runs = [Run(PUBLISHED / run_id) for run_id in (PUBLISHED / "INDEX").read_text(encoding="utf-8").split()]
    found = [record for run in runs for record in read_records(run.logs(), run.id).cases]
    return tuple(record for record in found if record.status == "passed")


def series(*protocols: str) -> list[tuple[str, Rounds]]:
    """Every side of the cases of these protocols, by a name: one piece of code, again and again."""
    return [
        (f"{record.plan.ref.run_id} {record.case.id} {side}", rounds)
        for record in records()
        for side, rounds in record.samples.items()
        if record.case.protocol in protocols and min(map(len, rounds)) >= FEWEST_CALLS
    ]


def turns(rounds: Rounds, draw: random.Random) -> tuple[list[list[int]], list[list[int]]]:
    """Neighbouring calls as the two sides of a turn, in an order that a coin gives."""
    sides: tuple[list[list[int]], list[list[int]]] = ([], [])
    for samples in rounds:
        pairs = [draw.sample(pair, 2) for pair in zip(samples[::2], samples[1::2], strict=False)]
        for side, values in zip(sides, zip(*pairs, strict=True), strict=True):
            side.append(list(values))
    return sides


def words(of: Sequence[tuple[str, Rounds]], slowed: float) -> Sequence[Word]:
    """The decisions of 200 comparisons of a route with itself, the second side slowed by a factor."""
    decided = []
    for number, (name, rounds) in enumerate(islice(cycle(of), COMPARISONS)):
        seed = f"{name} {number}"
        first, second = turns(rounds, random.Random(seed))
        slower = [[round(ns * slowed) for ns in samples] for samples in second]
        decided.append(stats.compare(first, slower, seed, paired=True).word)
    return decided


@pytest.mark.slow
def test_no_route_is_called_different_from_itself() -> None:
    """Of 200 comparisons of a route with itself, on samples of a GPU, none is called a difference."""
    assert not {Word.FASTER, Word.SLOWER} & set(words(series("official", "strict"), 1.0))


def test_a_baseline_that_poses_as_a_candidate_is_no_faster() -> None:
    """Wherever a GPU has timed the baseline in turns with itself, that is called no difference."""
    compared = [
        stats.compare(
            record.samples["baseline"], record.samples["baseline_again"], record.case.id, paired=True
        )
        for record in records()
        if record.case.protocol == "strict" and "baseline_again" in record.samples
    ]
    assert not {Word.FASTER, Word.SLOWER} & {found.word for found in compared}


@pytest.mark.slow
def test_a_slow_down_of_3_percent_is_found() -> None:
    """Of 200 comparisons with one side slowed by 3 %, at least 90 % are called slower."""
    found = words(series("strict") or series("official"), 1.03)
    assert found.count(Word.SLOWER) >= 0.9 * COMPARISONS
