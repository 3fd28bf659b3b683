"""Errors against the gate: shares of the budget, and the worst elements under both branches of the rule."""

from __future__ import annotations

from collections.abc import Sequence

from builder.reports.charts.parts import (
    LEAST,
    Chart,
    Spec,
    base,
    chart,
    hue,
    is_figure,
    log_axis,
    text,
    tips,
    y_axis,
)
from builder.reports.lines import Line
from builder.results import cell


def gate_shares(lines: Sequence[Line]) -> Chart | None:
    """The worst element's share of its budget."""
    values = [
        {
            **base(line),
            "value": max(row.gate_share or 0.0, LEAST),
            "gate": "passes" if (row.gate_share or 0.0) <= 1 and not row.failed_elements else "fails",
            "gate share": text(row.gate_share),
            "max abs": text(row.max_abs),
            "margin": text(row.margin),
            "failed elements": cell(row.failed_elements),
        }
        for line in lines
        if line.counts and is_figure((row := line.row).gate_share)
    ]
    about = "The worst element's share of its own budget, the larger of both tolerances; right of 1 fails."
    shown = tips("gate share", "gate", "max abs", "margin", "failed elements")
    colour = hue("gate", ["passes", "fails"], ["var(--good)", "var(--bad)"])
    shape = {
        "field": "gate",
        "type": "nominal",
        "scale": {"domain": ["passes", "fails"], "range": ["circle", "cross"]},
        "legend": {"title": None},
    }
    layers: list[Spec] = [
        {
            "mark": {"type": "rule", "aria": False, "color": "var(--bad)", "strokeDash": [4, 3]},
            "encoding": {"x": {"datum": 1, "type": "quantitative"}},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
            "encoding": {
                "y": y_axis(),
                "x": log_axis("value", "share of the budget"),
                "color": colour,
                "shape": shape,
                "tooltip": shown,
            },
        },
    ]
    return chart("gate", "Error against the gate", about, values, layers)


def worst_elements(lines: Sequence[Line]) -> Chart | None:
    """The worst element of each line under the two branches of the rule."""
    values, tolerances = [], set()
    for line in lines:
        gate, done = line.row.flags, line.record.done
        told = [_float(gate.get(name)) for name in ("worst_reference", "worst_output")]
        if not (line.counts and done and done.gate and all(map(is_figure, told))):
            continue
        reference, output = (value or 0.0 for value in told)
        error = abs(output - reference)
        tolerances.add((done.gate.atol, done.gate.rtol))
        more = {"error": text(error), "reference": text(reference), "gate share": text(line.row.gate_share)}
        where = {"r": max(abs(reference), LEAST), "e": max(error, LEAST)}
        values.append({**base(line), **where, **more, "status": line.row.status})
    if not values or len(tolerances) != 1:
        return None
    (atol, rtol) = tolerances.pop()
    low = min([*(datum["r"] for datum in values), atol / max(rtol, LEAST) / 10]) / 2
    high = max([*(datum["r"] for datum in values), atol / max(rtol, LEAST) * 10]) * 2
    ends = sorted({low, min(max(atol / max(rtol, LEAST), low), high), high})
    branches = [{"r": r, "absolute": atol, "relative": max(rtol * r, LEAST)} for r in ends]
    about = (
        f"Each case's worst element: it passes below either line, |o-r| ≤ {atol:g} or |o-r| ≤ {rtol:g}·|r|."
    )
    x = log_axis("r", "|r|, the reference", domain=[low, high])
    y = {**log_axis("e", "|o-r|, the error"), "title": "|o-r|, the error"}
    layers: list[Spec] = [
        *(
            {
                "data": {"values": branches},
                "mark": {"type": "line", "color": "var(--bad)", "strokeDash": dash, "clip": True},
                "encoding": {"x": x, "y": {**y, "field": name}},
            }
            for name, dash in (("absolute", [4, 3]), ("relative", [1, 0]))
        ),
        {
            "mark": {"type": "point", "filled": True, "size": 60, "color": "var(--accent)", "opacity": 1},
            "encoding": {"x": x, "y": y, "tooltip": tips("error", "reference", "gate share", "status")},
        },
    ]
    return chart("worst", "Worst elements, both branches", about, values, layers, height=300)


def _float(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
