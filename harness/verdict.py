"""What speaks against a case's times: the driver's own clock, the baseline before there was a candidate.

Standard library only. An honest case on a noisy host must never be disqualified, so the bands are wide: what
lies between is a flag in the row.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.channel import Blocked, Figures
from harness.events import Samples
from harness.limits import CaseFailureError

# Interference only ever adds time, so the low quantile is what a side takes when it is left alone.
_QUANTILE = 0.2
# Times what the baseline took before, and takes again when the candidate is gone.
SLOWED_ON_GPU, SLOWED_ON_CPU = 1.3, 2.0  # a device's times are steady, a host has other work to do
TOLD = 1.1  # from here on the row says so
_TOO_MUCH = 1.05  # of the wall, that samples add up to
_PLAIN, _HIDDEN = 1.5, 2.5  # times what the samples say, and times as much as of the baseline's
_REMEMBERED = 0.6  # of the time of an input that is new
_FAR, _MANY = 10.0, 0.001  # a budget ten times overdrawn, by one element in a thousand
_SLACK_NS = 5_000_000  # a round trip to the worker on a busy machine


def slowdown(samples: Sequence[Samples], clean: Sequence[Samples] = ()) -> float:
    """Return how many times as long the baseline took beside the candidate as without it; 0 if unknown.

    Beside it: in the round in which it took the least. Without it: before there was one or, with `clean`
    times of a process that never had one, in the slower of the two.
    """
    beside = [_quantile(part.values) for part in samples if part.side == "baseline"]
    alone = [_quantile(part.values) for part in (*samples, *clean) if part.side == "baseline_before"]
    return min(beside) / max(alone) if beside and alone else 0.0


def _quantile(values: Sequence[int]) -> int:
    ordered = sorted(values)
    return ordered[int(_QUANTILE * (len(ordered) - 1))]


def refuse_slowed(ratio: float, most: float) -> None:
    """Raise CaseFailureError when the baseline was slowed beyond what noise can do."""
    if ratio > most:
        words = f"the baseline took {ratio:.2f} times as long beside the candidate as without it"
        raise CaseFailureError("disqualified", "slowed_baseline", words)


def refuse_overfull(samples_ns: int, wall_ns: int) -> None:
    """Raise CaseFailureError when a block's samples add up to more time than the block took."""
    if samples_ns > _TOO_MUCH * wall_ns + _SLACK_NS:
        words = f"samples of {samples_ns / 1e6:.4g} ms were taken in {wall_ns / 1e6:.4g} ms"
        raise CaseFailureError("disqualified", "clock", words)


def is_hidden(candidate: float, baseline: float) -> bool:
    """Whether calls in a row show time that the samples hide: far more of the candidate's than of the other.

    Each is the wall of a side's calls in a row, by the driver's clock, over what its samples say. Only where
    the host's time is the device's, on a CPU, can nothing honest explain that.
    """
    return candidate > max(_PLAIN, _HIDDEN * baseline)


def refuse_remembered(fresh: Sequence[int], again: Sequence[int]) -> None:
    """Raise CaseFailureError when an input that was seen before is answered in far less time than a new one.

    Seven in ten of the repeated calls must have been faster than nine in ten of the new ones, by far; with
    twenty of each, noise does that once in 100,000 cases even if it makes half of all calls slow.
    """
    slowest = sorted(again)[-(-7 * len(again) // 10) - 1]
    fastest = sorted(fresh)[len(fresh) // 10]
    if slowest < _REMEMBERED * fastest:
        words = f"an input seen before takes {slowest / 1e6:.4g} ms, a new one {fastest / 1e6:.4g} ms"
        raise CaseFailureError("disqualified", "remembered_output", words)


def refuse_wrong(figures: Figures) -> None:
    """Raise CaseFailureError when a timed call's output is outside the tolerances.

    A little outside is a candidate at the edge of its budget, and no worse than the same at the gate; far
    outside, after outputs at the gate that were right, is other work than the gate has seen.
    """
    if figures.passed:
        return
    words = f"{figures.failed_elements} of {figures.total_elements} elements of a timed call's output"
    if figures.gate_share > _FAR and figures.failed_elements > _MANY * figures.total_elements:
        words += " are far outside the tolerances, though the gate's outputs were right"
        raise CaseFailureError("disqualified", "timed_output", words)
    raise CaseFailureError("failed_gate", "timed_gate", f"{words} are outside the tolerances")


def refuse_disowned(blocked: Blocked) -> None:
    """Raise CaseFailureError when outputs were not the caller's own from the end of their call on."""
    if blocked.shared:
        words = f"{blocked.shared} outputs of timed calls share memory with another output or with an input"
        raise CaseFailureError("disqualified", "shared_output", words)
    if blocked.changed:
        words = f"{blocked.changed} outputs of timed calls changed after the call had returned"
        raise CaseFailureError("disqualified", "changed_output", words)
