"""A passed case's raw samples to its row's times. The statistics are in `builder.stats`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from builder import stats
from builder.records import CaseRecord


@dataclass(frozen=True)
class Timing:
    """What a passed case's samples come to; times in milliseconds. Without a baseline there is no ratio."""

    median_ms: float
    tokens_per_s: float
    baseline_median_ms: float | None = None
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    noise_floor: float | None = None


def timing_of(record: CaseRecord) -> Timing | None:
    """Return the figures, or None where the candidate has no samples."""
    baseline, candidate = record.samples.get("baseline"), record.samples.get("candidate")
    if not candidate:
        return None
    after = stats.pooled_median(candidate) / 1e6
    alone = Timing(after, record.case.shape.tokens / after * 1e3)
    if not baseline:
        return alone
    before = stats.pooled_median(baseline) / 1e6
    low, high = stats.speedup_interval(baseline, candidate, record.case.id)
    return replace(
        alone,
        baseline_median_ms=before,
        speedup=before / after,
        speedup_low=low,
        speedup_high=high,
        noise_floor=stats.noise_floor(baseline),
    )
