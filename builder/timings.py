"""What a passed case's samples come to: medians, quantiles, the speed-up, and what its noise is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from builder import stats
from builder.records import CaseRecord
from builder.stats import Comparison

PAIRED = "strict"  # the protocol whose sides take turns call by call


@dataclass(frozen=True)
class Timing:
    """A row's figures; times in milliseconds. Without a baseline there is no ratio."""

    median_ms: float
    tokens_per_s: float
    baseline_median_ms: float | None = None
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    noise_floor: float | None = None


def timing_of(record: CaseRecord) -> Timing | None:
    """Return the figures, or None where the candidate has no samples.

    Where the baseline was timed against itself, what it differs by is noise and no less than the floor.
    """
    candidate = record.samples.get("candidate")
    if not candidate:
        return None
    median_ms = stats.pooled_median(candidate) / 1e6
    alone = Timing(median_ms, record.case.shape.tokens / median_ms * 1e3)
    found, itself = _compared(record, "candidate"), _compared(record, "baseline_again")
    if not found:
        return alone
    floors = [found.floor, abs(itself.ratio - 1) if itself else None]
    return replace(
        alone,
        baseline_median_ms=stats.pooled_median(record.samples["baseline"]) / 1e6,
        speedup=found.ratio,
        speedup_low=found.low,
        speedup_high=found.high,
        noise_floor=max((floor for floor in floors if floor is not None), default=None),
    )


def _compared(record: CaseRecord, side: str, first: str = "baseline") -> Comparison | None:
    """Compare the baseline, or another first side, with a side; None where one of them was not timed."""
    one, other = record.samples.get(first), record.samples.get(side)
    if not one or not other:
        return None
    seed = (
        record.case.id if (first, side) == ("baseline", "candidate") else f"{record.case.id} {first} {side}"
    )
    return stats.compare(one, other, seed, record.case.protocol == PAIRED)


def flags_of(record: CaseRecord) -> dict[str, str]:
    """Return what a row's flags say of a case's samples: quantiles, and the baseline against itself.

    `aa` is the baseline's time over that of the same code timed as if it were a candidate, with its interval;
    `vs_against` the other version's time over the candidate's: above 1 the candidate is the faster one.
    """
    told: dict[str, str] = {}
    if candidate := record.samples.get("candidate"):
        told |= {f"{name}_ms": _ms(stats.quantile(candidate, q)) for name, q in (("p10", 0.1), ("p90", 0.9))}
    if before := record.samples.get("baseline_before"):
        told["baseline_before_ms"] = _ms(stats.pooled_median(before))
    if itself := _compared(record, "baseline_again"):
        figures = {"aa": itself.ratio, "aa_low": itself.low, "aa_high": itself.high}
        told |= {name: f"{figure:.6g}" for name, figure in figures.items()}
    if found := _compared(record, "candidate", first="against"):
        told["against_median_ms"] = _ms(stats.pooled_median(record.samples["against"]))
        figures = {"vs_against": found.ratio, "vs_against_low": found.low, "vs_against_high": found.high}
        told |= {name: f"{figure:.6g}" for name, figure in figures.items()}
        told |= {"vs_against_floor": f"{found.floor or 0:.6g}", "vs_against_verdict": found.word}
    return told


def against(flags: Mapping[str, str]) -> Comparison | None:
    """Return what a row's flags say of the candidate against the other version, if there was one."""
    names = ("vs_against", "vs_against_low", "vs_against_high", "vs_against_floor")
    return Comparison(*(float(flags[name]) for name in names)) if names[0] in flags else None


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.6g}"
