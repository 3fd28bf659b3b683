"""The worker's half of protocol `official`: the contest's timing to the letter, by the contract's timer."""

from __future__ import annotations

import time
from collections.abc import Sequence

from torch import Tensor, nn

from harness.drawing import Drawn
from harness.events import SAMPLES_PER_EVENT, Samples, pack_ns
from harness.timing import SEED_OFFSET

_ALONE_S = 1.0  # about so long is the baseline timed before there is a candidate


def alone(drawn: Drawn) -> tuple[Samples, ...]:
    """Return times of the baseline before there is a candidate: as many as a second holds, at least three."""
    inputs = timing_inputs(drawn)
    counts = drawn.case.counts.shortened(drawn.case.shape)
    drawn.contract.warmup_model(drawn.baseline, *inputs, min(3, counts.warmup), drawn.device)
    start = time.perf_counter()
    drawn.contract.warmup_model(drawn.baseline, *inputs, 1, drawn.device)
    calls = round(_ALONE_S / max(time.perf_counter() - start, 1e-6))
    calls = min(max(3, calls), counts.repeats)
    taken = drawn.contract.benchmark_once(drawn.baseline, *inputs, calls, drawn.device)
    return tuple(packed(drawn.case.id, "baseline_before", 0, taken))


def in_turns(
    drawn: Drawn, candidate: nn.Module, inputs: tuple[Tensor, Tensor], baseline: bool = True
) -> tuple[Samples, ...]:
    """Return the contest's samples: both sides warm, then rounds in which they take turns in going first.

    Without `baseline` the candidate is alone.
    """
    contract, counts = drawn.contract, drawn.case.counts.shortened(drawn.case.shape)
    sides = [("baseline", drawn.baseline), ("candidate", candidate)][0 if baseline else 1 :]
    for _, model in sides:
        contract.warmup_model(model, *inputs, counts.warmup, drawn.device)
    samples: list[Samples] = []
    for number in range(counts.rounds):
        for side, model in sides if number % 2 == 0 else reversed(sides):
            taken = contract.benchmark_once(model, *inputs, counts.repeats, drawn.device)
            samples += packed(drawn.case.id, side, number, taken)
    return tuple(samples)


def again(drawn: Drawn, inputs: tuple[Tensor, Tensor]) -> tuple[Samples, ...]:
    """Return as many rounds of the baseline once more: they differ from its first ones by noise alone."""
    counts = drawn.case.counts.shortened(drawn.case.shape)
    samples: list[Samples] = []
    for number in range(counts.rounds):
        taken = drawn.contract.benchmark_once(drawn.baseline, *inputs, counts.repeats, drawn.device)
        samples += packed(drawn.case.id, "baseline_again", number, taken)
    return tuple(samples)


def timing_inputs(drawn: Drawn) -> tuple[Tensor, Tensor]:
    """Return the one input [B,S,D] of all of the contest's timing, and its mask [B,S]."""
    return drawn.inputs(drawn.seed + SEED_OFFSET)


def packed(case_id: str, side: str, number: int, samples_ms: Sequence[float]) -> list[Samples]:
    """Return one round's times of one side as events of at most SAMPLES_PER_EVENT whole nanoseconds."""
    ns = [round(ms * 1e6) for ms in samples_ms]
    return [
        Samples(case_id, side, number, start, pack_ns(ns[start : start + SAMPLES_PER_EVENT]))
        for start in range(0, len(ns), SAMPLES_PER_EVENT)
    ]
