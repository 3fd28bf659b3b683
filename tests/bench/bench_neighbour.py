"""Whether a case's time suffers from the case on the next card: at most 5 % on average.

Two workers on the CPU; and two GPUs where there are two: this needs torch and this tree alone, as
`python -m tests.bench neighbour`. A case that is alone has the same share of the cores.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median

from harness.cards import find_gpus
from harness.events import CaseDone, Order, Samples, Terms, decode, to_plain
from harness.shapes import SHAPES, Case, Counts
from tests.bench.figures import ROOT, Figure

LIMIT = 1.05


@dataclass(frozen=True)
class Place:
    """Where two cases can run side by side, and the cases whose times are compared there."""

    name: str
    asked: str
    shapes: tuple[str, ...]
    counts: Counts
    rounds: int


CPU = Place("two CPU workers", "cpu", ("c08", "c13"), Counts(3, 60, 3), 3)
# Three that wait for the host, one of small operations, two that keep the card busy.
GPU = Place("two GPUs", "any", ("s02", "s07", "s12", "s01", "s08", "s13"), Counts(), 2)


def measure(folder: Path) -> list[Figure]:
    """Measure the CPU, and GPUs where there are at least two."""
    places = [CPU, GPU] if len(find_gpus()) > 1 else [CPU]
    return [measure_at(place, folder) for place in places]


def measure_at(place: Place, folder: Path) -> Figure:
    """Time each case alone, then all of them on two cards, in turns; compare the medians of its calls."""
    terms = Terms("", "", "", asked_accelerator=place.asked, devices=2)
    cases = [Case(SHAPES[key], "sdpa", counts=place.counts) for key in place.shapes]
    sides: dict[str, list[tuple[Case, ...]]] = {
        "alone": [(case,) for case in cases],
        "beside": [tuple(cases)],
    }
    ms: dict[str, dict[str, list[float]]] = {side: {} for side in sides}
    for number in range(place.rounds):
        for side in sorted(sides, reverse=number % 2 == 1):
            for ordered in sides[side]:
                for name, value in times(Order(terms, ordered), folder).items():
                    ms[side].setdefault(name, []).append(value)
    return figure(place.name, ms["alone"], ms["beside"])


def figure(what: str, alone: dict[str, list[float]], beside: dict[str, list[float]]) -> Figure:
    """The geometric mean of the cases' ratios; the sides are shares of each case's median when alone."""
    middle = {name: median(values) for name, values in alone.items()}
    ratios = [median(beside[name]) / middle[name] for name in middle]
    for name, ratio in zip(middle, ratios, strict=True):
        print(f"{name}: alone {middle[name]:.4g} ms, beside another {ratio:.3f} times that")
    samples = {
        side: [value / middle[name] for name in middle for value in times_[name]]
        for side, times_ in (("alone", alone), ("beside", beside))
    }
    value = geometric_mean(ratios)
    return Figure(f"a case beside another / alone, {what}", value, "x", LIMIT, samples=samples)


def times(order: Order, folder: Path) -> dict[str, float]:
    """The medians in milliseconds of both sides' calls, by case and side, of one run of the driver."""
    (folder / "order.json").write_text(json.dumps(to_plain(order)), "utf-8")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "harness.driver", "order.json"]
    done = subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True, text=True)
    bodies = [event.body for line in done.stdout.splitlines() if (event := decode(line))]
    refuse_failures([body for body in bodies if isinstance(body, CaseDone)])
    ns: dict[str, list[int]] = {}
    for body in bodies:
        if isinstance(body, Samples):
            ns.setdefault(f"{body.case_id} {body.side}", []).extend(body.values)
    return {name: median(values) / 1e6 for name, values in ns.items()}


def refuse_failures(ends: Sequence[CaseDone]) -> None:
    """Raise RuntimeError for a case that has no times."""
    for end in ends:
        if end.status != "passed":
            raise RuntimeError(f"{end.case_id}: {end.status}: {end.error}")
