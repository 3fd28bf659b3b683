"""Why a speed-up of sides that took turns may not be the ratio of the two medians beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from builder.results import Row
from builder.terminal import one_line
from builder.timings import PAIRED


def unlike_medians(rows: Iterable[Row]) -> Iterator[str]:
    """Yield a sentence for each row whose interval does not hold the ratio of its medians."""
    for row in rows:
        ratio = _of_medians(row)
        if ratio and not (row.speedup_low or 0.0) <= ratio <= (row.speedup_high or ratio):
            yield (
                f"{one_line(row.case_id)}: {row.speedup:.2f}× is the middle of the turns' own ratios, the "
                f"medians alone give {ratio:.2f}×: times came in several levels, which a turn's calls share"
            )


def _of_medians(row: Row) -> float | None:
    """Return the ratio of the medians of a row whose sides took turns; None for any other."""
    if row.protocol != PAIRED or not (row.speedup and row.baseline_median_ms and row.median_ms):
        return None
    return row.baseline_median_ms / row.median_ms
