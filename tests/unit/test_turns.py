"""A speed-up of sides that took turns is explained where it is not the ratio of the medians beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from builder.reports.html import report
from builder.turns import unlike_medians
from tests.unit.measured_logs import S01, Measured, reading_of


def test_a_paired_ratio_far_from_that_of_the_medians_is_explained(tmp_path: Path) -> None:
    """Both ratios are told, also under the report's table; where they agree, or for other protocols, none."""
    run = reading_of(tmp_path / "log", Measured(S01, 4900.0, 3100.0))
    strict = replace(run.rows[0], protocol="strict", speedup=1.02, speedup_low=1.0, speedup_high=1.04)
    [told] = unlike_medians([strict])
    assert told.startswith(
        f"{S01.id}: 1.02× is the middle of the turns' own ratios, the medians alone give 1.58×"
    )
    assert told.replace("'", "&#39;") in report([replace(run, rows=(strict,))])
    agreeing = replace(strict, speedup=1.58, speedup_low=1.5, speedup_high=1.6)
    assert list(unlike_medians([agreeing, run.rows[0], replace(strict, speedup=None)])) == []
