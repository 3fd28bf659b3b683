"""How long a case will take on a place: learned from past runs there, a guess before that.

| known                                | expected                                           |
| its shape and dtype on such a device | the median of what it took, scaled by the counts   |
| other cases on such a device         | the guess, scaled as theirs were wrong             |
| nothing                              | the guess: `cost_s` on a T4, by roofline elsewhere |
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from builder import accelerators
from builder.accelerators import GENERIC
from builder.history import Past
from builder.roofline import CARDS, card_of, floors
from harness.shapes import Case, cost_s

GUESSED_CARD = "Tesla T4"  # which `cost_s` is for
ON_CPU = 30.0  # times a T4's compute: a guess for a few cores
START_S = 15.0  # of a case's processes, which no card makes faster
NEWEST = 9  # measurements that count


@dataclass(frozen=True)
class Expected:
    """A case's seconds on one card. `runs` is how many past cases they come from, 0 for a guess."""

    seconds: float
    how: str
    runs: int = 0


@dataclass(frozen=True)
class Where:
    """A place as far as it says what device a case will meet there."""

    backend: str
    accelerator: str = ""

    @property
    def pattern(self) -> str:
        """What the device's name contains; empty when that is not known before."""
        known = accelerators.lookup(self.accelerator) if self.accelerator else None
        return known.device if known else ("" if self.accelerator in GENERIC else self.accelerator)

    def is_of(self, past: Past) -> bool:
        """Whether a past case met such a device as will be met here; made-up ones count where they are."""
        there = past.backend == self.backend
        if self.accelerator == "cpu" or not self.pattern:
            return there and (self.accelerator != "cpu" or _is_cpu(past.device))
        return self.pattern.lower() in past.device.lower() and (there or not past.is_simulated)


def _is_cpu(device: str) -> bool:
    return "nvidia" not in device.lower() and "tesla" not in device.lower()


def expect(
    cases: Sequence[Case], where: Where, seeds: int, past: Iterable[Past], most_s: float = math.inf
) -> dict[str, Expected]:
    """Return what each case, by id, is expected to take there; none more than `most_s`, its own limit."""
    mine = [one for one in past if where.is_of(one) and one.status == "passed" and one.seconds]
    alike: dict[tuple[str, str], list[Past]] = defaultdict(list)
    for one in mine:
        alike[_kind(one.case_id)].append(one)
    guess = _guesser(where)
    wrong = _factor(mine[: 5 * NEWEST], guess)
    found = {}
    for case in cases:
        measured = alike.get(_kind(case.id), [])[:NEWEST]
        expected = _learned(case, seeds, measured) or _guessed(
            guess(cost_s(case, seeds), case.shape.key), wrong
        )
        found[case.id] = Expected(min(expected.seconds, most_s), expected.how, expected.runs)
    return found


def _kind(case_id: str) -> tuple[str, str]:
    """Shape and dtype: `s08-sdpa-float32-official-<hex>`; routes differ by less than shapes do."""
    shape, _, dtype, *_ = case_id.split("-")
    return shape, dtype


def _learned(case: Case, seeds: int, measured: Sequence[Past]) -> Expected | None:
    same = [one for one in measured if one.case_id == case.id] or measured
    if not same:
        return None
    cost = cost_s(case, seeds)
    seconds = median(_scaled(one.seconds or 0.0, one.cost_s, cost) for one in same)
    count = len({one.run_id for one in same})
    return Expected(seconds, f"learned from {count} run{'s' if count > 1 else ''}", count)


def _scaled(seconds: float, cost: float, wanted: float) -> float:
    """What was measured with other counts, at this case's: the start stays, the rest goes with the cost."""
    if not cost or not wanted:
        return seconds
    start_s = min(START_S, seconds)
    return start_s + (seconds - start_s) * max(0.0, wanted - START_S) / max(1e-9, cost - START_S)


def _guesser(where: Where) -> Callable[[float, str], float]:
    """Return what turns a T4's seconds for a shape into the place's."""
    from harness.shapes import SHAPES

    card = card_of(where.pattern) or next((c for name, c in CARDS.items() if _names(where, name)), None)
    if where.accelerator == "cpu" or where.backend == "local":
        return lambda seconds, _: min(seconds, START_S) + max(0.0, seconds - START_S) * ON_CPU
    if card is None:
        return lambda seconds, _: seconds

    def guess(seconds: float, shape: str) -> float:
        ratio = floors(SHAPES[shape], card)["fp32"].ms / floors(SHAPES[shape], CARDS[GUESSED_CARD])["fp32"].ms
        return min(seconds, START_S) + max(0.0, seconds - START_S) * ratio

    return guess


def _names(where: Where, card: str) -> bool:
    return bool(where.pattern) and where.pattern.lower() in card.lower()


def _factor(mine: Sequence[Past], guess: Callable[[float, str], float]) -> tuple[float, int]:
    """By how much guesses for such a device were wrong: the median, and of how many cases."""
    ratios = [(one.seconds or 0.0) / guessed for one in mine if (guessed := guess(one.cost_s, one.shape))]
    return (median(ratios), len(ratios)) if ratios else (1.0, 0)


def _guessed(seconds: float, wrong: tuple[float, int]) -> Expected:
    factor, count = wrong
    how = f"estimated, scaled by {count} other cases there" if count else "estimated"
    return Expected(seconds * factor, how)


def costs_of(expected: Mapping[str, Mapping[str, Expected]]) -> dict[str, dict[str, float]]:
    """Return seconds by place and case."""
    return {place: {case: one.seconds for case, one in cases.items()} for place, cases in expected.items()}
