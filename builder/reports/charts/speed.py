"""Speed-ups, with interval and noise."""

from __future__ import annotations

from collections.abc import Sequence

from builder.reports.charts.parts import (
    Chart,
    Spec,
    base,
    chart,
    hue,
    log_axis,
    text,
    tips,
    y_axis,
)
from builder.reports.lines import Line
from builder.stats import Word

_VERDICTS = {Word.FASTER: "good", Word.SLOWER: "bad", Word.SAME: "same", Word.UNTOLD: "unsure"}
_MARKS = ["circle", "square", "diamond", "triangle-up"]


def speedups(lines: Sequence[Line]) -> Chart | None:
    """Speed-up, interval and noise of each line."""
    values = []
    for line in lines:
        if found := line.comparison:
            more = {
                "speed-up": f"{found.ratio:.3f}×",
                "95 %": f"{found.low:.3f}–{found.high:.3f}",
                "noise": f"± {found.threshold:.1%}",
                "baseline": text(line.row.baseline_median_ms, unit=" ms"),
                "candidate": text(line.row.median_ms, unit=" ms"),
            }
            noise = {"below": 1 / (1 + found.threshold), "above": 1 + found.threshold}
            figures = {"ratio": found.ratio, "low": found.low, "high": found.high}
            values.append({**base(line), **figures, **noise, "verdict": found.word, **more})
    about = "Baseline's time over the candidate's, with its 95 % interval; grey is what noise alone may do."
    colour = hue("verdict", [*_VERDICTS], [f"var(--{name})" for name in _VERDICTS.values()])
    shape = {
        "field": "verdict",
        "type": "nominal",
        "scale": {"domain": [*_VERDICTS], "range": _MARKS},
        "legend": {"title": None},
    }
    shown = tips("speed-up", "95 %", "noise", "verdict", "baseline", "candidate")
    x = log_axis("ratio", "times as fast as the baseline")
    layers: list[Spec] = [
        {
            "mark": {"type": "bar", "aria": False, "color": "var(--band)", "height": {"band": 0.8}},
            "encoding": {"y": y_axis(), "x": {**x, "field": "below"}, "x2": {"field": "above"}},
        },
        {
            "mark": {"type": "rule", "aria": False, "color": "var(--muted)", "strokeDash": [4, 3]},
            "encoding": {"x": {"datum": 1, "type": "quantitative"}},
        },
        {
            "mark": {"type": "rule", "aria": False, "strokeWidth": 2},
            "encoding": {"y": y_axis(), "x": {**x, "field": "low"}, "x2": {"field": "high"}, "color": colour},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
            "encoding": {"y": y_axis(), "x": x, "color": colour, "shape": shape, "tooltip": shown},
        },
    ]
    return chart("speed", "Speed-up", about, values, layers)
