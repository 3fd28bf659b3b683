"""The figures of all trials of a case as those of one gate. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Iterable

from harness.channel import Figures
from harness.events import Gate


def gate_of(figures: list[Figures], weight_seeds: list[int], input_seeds: list[int]) -> Gate:
    """Sum the counts of all trials and keep the worst of each figure."""
    return Gate(
        failed_elements=sum(part.failed_elements for part in figures),
        total_elements=sum(part.total_elements for part in figures),
        max_abs=worst(part.max_abs for part in figures),
        max_rel=worst(part.max_rel for part in figures),
        gate_share=worst(part.gate_share for part in figures),
        weight_seeds=tuple(weight_seeds),
        input_seeds=tuple(input_seeds),
        rtol=figures[0].rtol,
        atol=figures[0].atol,
    )


def worst(values: Iterable[float]) -> float:
    """Return the largest; nan is worse than any number."""
    return max(values, key=lambda value: (math.isnan(value), value))
