"""How samples are spread."""

from __future__ import annotations

from collections.abc import Sequence

from builder import stats
from builder.reports.charts.parts import (
    SIDE_HUES,
    SIDES,
    Chart,
    Spec,
    base,
    chart,
    hue,
    log_axis,
    tips,
    y_axis,
)
from builder.reports.lines import Line


def distributions(lines: Sequence[Line]) -> Chart | None:
    """How each side's samples are spread."""
    values = []
    for line in lines if lines else ():
        for side in SIDES if line.counts else ():
            if rounds := line.record.samples.get(side):
                names = ("least", "p10", "median", "p90", "most")
                spread = {
                    name: stats.quantile(rounds, q) / 1e6
                    for name, q in zip(names, (0.0, 0.1, 0.5, 0.9, 1.0), strict=True)
                }
                more = {f"{name} ms": f"{ms:.4g}" for name, ms in spread.items()}
                count = {"samples": str(sum(map(len, rounds)))}
                values.append({**base(line), "side": side, **spread, **more, **count})
    x = log_axis("p10", "milliseconds")
    offset = {"field": "side", "type": "nominal", "sort": list(SIDES)}
    common = {"y": y_axis(), "yOffset": offset, "color": hue("side", SIDES, SIDE_HUES)}
    shown = tips("side", *(f"{name} ms" for name in ("least", "p10", "median", "p90", "most")), "samples")
    layers: list[Spec] = [
        {
            "mark": {"type": "rule", "aria": False, "strokeWidth": 1},
            "encoding": {**common, "x": {**x, "field": "least"}, "x2": {"field": "most"}},
        },
        {
            "mark": {"type": "bar", "height": 6},
            "encoding": {**common, "x": x, "x2": {"field": "p90"}, "tooltip": shown},
        },
        {
            "mark": {"type": "tick", "aria": False, "size": 10, "thickness": 2},
            "encoding": {**common, "x": {**x, "field": "median"}, "color": {"value": "var(--ink)"}},
        },
    ]
    about = "All samples of both sides: from the least to the most, the middle four fifths thick, the median."
    return chart("samples", "Sample distributions", about, values, layers)
