"""A route against itself, live: of more than 200 comparisons on this machine none is called a difference."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from builder import stats
from builder.stats import Word
from tests.bench.figures import ROOT, Figure, wall_s

MODEL = ROOT / "tests" / "models" / "exact.py"
COUNTS = ("--warmup", "5", "--repeats", "100", "--rounds", "4")
RUN = ("--suite", "smoke", "--shapes", "1,2,5", "--model", str(MODEL), "--protocol", "strict", *COUNTS)

Sides = dict[str, list[list[int]]]


def measure(folder: Path) -> list[Figure]:
    """Time the baseline and copies of itself in turns, and decide on every stretch of what was taken."""
    wall_s("-m", "builder", "run", *RUN, cwd=folder)
    [samples] = (folder / "runs").glob("*/samples.csv")
    pieces = [piece for sides in _read(samples).values() for piece in _pieces(sides)]
    found = [
        stats.compare(first, second, f"piece {number}", paired=True)
        for number, (first, second) in enumerate(pieces)
    ]
    called = sum(one.word in (Word.FASTER, Word.SLOWER) for one in found)
    return [Figure(f"a route called different from itself, of {len(found)} comparisons", called, "", 0)]


def _read(samples: Path) -> dict[str, Sides]:
    cases: dict[str, Sides] = defaultdict(lambda: defaultdict(list))
    with samples.open(encoding="utf-8", newline="") as stream:
        for line in csv.DictReader(stream):
            rounds = cases[line["case_id"]][line["side"]]
            while len(rounds) <= int(line["round"]):
                rounds.append([])
            rounds[-1].append(int(line["ns"]))
    return cases


def _pieces(sides: Sides) -> Iterator[tuple[list[list[int]], list[list[int]]]]:
    """Yield each two of the sides, which all run the same code, over every stretch of neighbouring blocks."""
    names = ("baseline", "baseline_again", "candidate")
    for first, second in combinations([sides[name] for name in names], 2):
        for begin, end in combinations(range(len(first) + 1), 2):
            yield first[begin:end], second[begin:end]
