"""What the gate tries for a case: weights, inputs, sizes, references; and what the figures come to.

The contest's own seeds are always there, and come last: the timing goes on with the last weights. All others
come from the operating system's entropy when the case begins, so that no candidate can be made for them; the
row records them. None is the timing's input. Standard library only.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from harness.channel import Figures
from harness.events import Gate
from harness.shapes import ORACLE_S, TIMING_SEED_OFFSET, Case, Settings, parse_settings

ORACLE_S_TIMED = 60.0  # for each output of a timed call
_SEEDS = 2**31
_ENTROPY = random.SystemRandom()

Tried = list[tuple["Trial", Figures]]


def infeasible(case: Case, memory_bytes: int, copies: int) -> str:
    """Return why the case cannot exist on a device of this memory (0: unknown), or nothing."""
    need = copies * case.shape.io_bytes(case.dtype)
    is_so = memory_bytes and need > memory_bytes
    return f"input and output need {need} bytes at this size, the device has {memory_bytes}" if is_so else ""


def baseline_lacks(case: Case, memory_bytes: int) -> int:
    """Return how many bytes the whole baseline needs where the device has fewer, else 0: it is not timed."""
    need = case.shape.reference_bytes(case.dtype)
    return need if memory_bytes and need > memory_bytes else 0


def oracle_s_of_timed(case: Case, memory_bytes: int) -> float:
    """Return how long the oracle may take for an output of a timed call; 0 where the baseline has room."""
    return 0.0 if case.shape.has_baseline(memory_bytes) else ORACLE_S_TIMED


@dataclass(frozen=True)
class Trial:
    """One output to gate. `truncated`: the case is cut shorter; `oracle_s` and `recompute` are `Check`'s."""

    case: Case
    weight_seed: int
    input_seed: int
    oracle_s: float = 0.0
    recompute: bool = False
    truncated: bool = False


def plan(case: Case, seeds: int, memory_bytes: int, dice: random.Random = _ENTROPY) -> list[Trial]:
    """Return a case's trials in order, with `seeds` weight seeds, on a device of this memory (0: unknown).

    Where the baseline cannot run over a single sequence, the oracle stands in for it, over one input a weight
    seed; before that the case is tried against the baseline itself, at the greatest length where that fits.
    """
    settings = parse_settings(case.harness_args)
    has_baseline = case.shape.has_baseline(memory_bytes)
    count = settings.accuracy_trials if has_baseline else 1
    drawn = list(_drawn(settings, max(1, seeds), count, dice))
    oracle_s = 0.0 if has_baseline else ORACLE_S / len(drawn)
    trials = [Trial(case, weights, seed, oracle_s) for weights, inputs in drawn for seed in inputs]
    own = len(trials) - count
    trials[own] = replace(trials[own], recompute=True)
    if has_baseline:
        return trials
    short = replace(case, shape=case.shape.truncated(memory_bytes))
    return [Trial(short, settings.seed, settings.seed, recompute=True, truncated=True), *trials]


def _drawn(
    settings: Settings, seeds: int, count: int, dice: random.Random
) -> Iterator[tuple[int, Sequence[int]]]:
    """Yield each weight seed with its input seeds, the contest's own last."""
    own = range(settings.seed, settings.seed + count)
    taken = {*own, settings.seed + TIMING_SEED_OFFSET}
    for _ in range(seeds - 1):
        weights, *inputs = (_fresh(taken, dice) for _ in range(1 + count))
        yield weights, sorted(inputs)
    yield settings.seed, own


def _fresh(taken: set[int], dice: random.Random) -> int:
    while (seed := dice.randrange(_SEEDS)) in taken:
        pass
    taken.add(seed)
    return seed


def gate_of(tried: Tried) -> Gate:
    """Sum the counts of all trials and keep the worst of each figure."""
    figures = [part for _, part in tried]
    trial, most = max(tried, key=lambda pair: _badness(pair[1].gate_share))
    total = sum(part.total_elements for part in figures)
    return Gate(
        failed_elements=sum(part.failed_elements for part in figures),
        total_elements=total,
        max_abs=worst(part.max_abs for part in figures),
        max_rel=worst(part.max_rel for part in figures),
        gate_share=most.gate_share,
        weight_seeds=tuple(dict.fromkeys(trial.weight_seed for trial, _ in reversed(tried))),
        input_seeds=tuple(sorted({trial.input_seed for trial, _ in tried})),
        reference=most.reference,
        coverage=total / sum(part.total_elements / part.coverage for part in figures),
        rtol=figures[0].rtol,
        atol=figures[0].atol,
        worst_index=most.worst_index,
        worst_reference=most.worst_reference,
        worst_output=most.worst_output,
        worst_seeds=(trial.weight_seed, trial.input_seed),
        failed_dims=tuple(sorted({dim for part in figures for dim in part.failed_dims})),
    )


def worst(values: Iterable[float]) -> float:
    """Return the largest; nan is worse than any number."""
    return max(values, key=_badness)


def _badness(value: float) -> tuple[bool, float]:
    return (math.isnan(value), value)


def flags_of(case: Case, tried: Tried) -> dict[str, str]:
    """Return what a row has no column for: what was cut short, and how good the reference itself is."""
    flags: dict[str, str] = {}
    figures = tried[-1][1]
    if (figures.rtol, figures.atol) != (Settings.rtol, Settings.atol):
        flags["tolerances"] = f"rtol {figures.rtol:g} atol {figures.atol:g}"
    for trial, part in tried:
        if trial.truncated:
            flags["truncated_s"] = str(trial.case.shape.seq_len)
            flags["truncated_share"] = f"{part.gate_share:.6g}"
        elif trial.oracle_s:
            flags["accuracy_trials"] = "1"
            flags["oracle_sequences"] = f"{round(part.coverage * case.shape.batch)} of {case.shape.batch}"
    if shares := dtype_shares(tried):
        flags["dtype_share"] = f"{max(shares):.6g}"
    return flags


def dtype_shares(tried: Tried) -> list[float]:
    """Return what the baseline itself uses of its budget, held against itself in float32, where measured."""
    return [part.dtype_share for _, part in tried if part.dtype_share is not None]


def verdict(case: Case, tried: Tried) -> str:
    """Return why the gate fails, or nothing when every element of every trial passes.

    Where the dtype itself cannot hold the gate, so that not even the baseline would pass, it says so.
    """
    failed = [(trial, part) for trial, part in tried if not part.passed]
    if not failed:
        return ""
    elements = sum(part.failed_elements for _, part in failed)
    total = sum(part.total_elements for _, part in tried)
    words = f"{elements} of {total} elements are outside the tolerances"
    if short := [trial.case.shape.seq_len for trial, _ in failed if trial.truncated]:
        words = f"cut to a length of {short[0]}, against the baseline itself, {words}"
    if max(shares := dtype_shares(tried), default=0.0) > 1:
        words += (
            f"; {case.dtype} cannot hold them here: the baseline itself, against itself in float32, "
            f"uses {max(shares):.3g} times its budget"
        )
    return words
