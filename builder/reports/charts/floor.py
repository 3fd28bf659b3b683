"""Measured times against what the hardware allows."""

from __future__ import annotations

from collections.abc import Sequence

from builder.reports.charts.parts import (
    SIDES,
    Chart,
    Datum,
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
from builder.roofline import CLASSES

_FLOOR_MARKS = ["M-.2,-1H.2V1H-.2Z", "triangle-right", "triangle-left", "square", "circle"]


def rooflines(lines: Sequence[Line]) -> Chart | None:
    """Measured times against the device's floors."""
    kinds = {"fp32": "floor: float32", "split": "floor: three half products", "half": "floor: half operands"}
    values: list[Datum] = []
    for line in lines:
        row = line.row
        if not line.floors or not row.median_ms:
            continue
        more = {
            "times its floor": text(line.times_floor, ".3g", "×"),
            "bound by": line.floor.bound if line.floor else "",
        }
        for name in CLASSES:
            floor = line.floors[name]
            what = {
                "what": kinds[name],
                "ms": floor.ms,
                "time": f"{floor.ms:.4g} ms",
                "bound by": floor.bound,
            }
            values.append({**base(line), **what})
        for side, ms in zip(SIDES, (row.baseline_median_ms, row.median_ms), strict=True):
            extra = more if side == "candidate" else {}
            values += [{**base(line), "what": side, "ms": ms, "time": f"{ms:.4g} ms", **extra}] if ms else []
    names = [*kinds.values(), *SIDES]
    colours = ["var(--hue4)", "var(--hue3)", "var(--hue5)", "var(--baseline)", "var(--accent)"]
    shape = {
        "field": "what",
        "type": "nominal",
        "scale": {"domain": names, "range": _FLOOR_MARKS},
        "legend": {"title": None},
    }
    layers: list[Spec] = [
        {
            "mark": {"type": "point", "filled": True, "size": 75, "opacity": 1},
            "encoding": {
                "y": y_axis(),
                "x": log_axis("ms", "milliseconds"),
                "color": hue("what", names, colours),
                "shape": shape,
                "tooltip": tips("what", "time", "times its floor", "bound by"),
            },
        },
    ]
    about = "What was measured, and the least that launch, memory, exponentials and arithmetic allow."
    return chart("floor", "Time against the hardware's floor", about, values, layers)
