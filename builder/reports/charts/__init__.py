"""The pictures of a report: functions from lines to a Vega-Lite specification, or None without figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from builder.reports.charts.card import clocks, memory
from builder.reports.charts.errors import gate_shares, worst_elements
from builder.reports.charts.floor import rooflines
from builder.reports.charts.parts import Chart
from builder.reports.charts.samples import distributions
from builder.reports.charts.shares import ablation, stages
from builder.reports.charts.speed import speedups
from builder.reports.lines import Line

CHARTS: tuple[Callable[[Sequence[Line]], Chart | None], ...] = (
    speedups,
    gate_shares,
    worst_elements,
    rooflines,
    stages,
    ablation,
    distributions,
    memory,
    clocks,
)


def charts_of(lines: Sequence[Line]) -> Iterable[Chart]:
    """Yield the pictures that the lines have figures for."""
    for draw in CHARTS:
        if chart := draw(lines):
            yield chart
