"""What the card held and did: memory and clocks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from builder.reports.charts.parts import (
    Chart,
    Spec,
    base,
    chart,
    hue,
    is_figure,
    log_axis,
    text,
    tips,
    x_axis,
    y_axis,
)
from builder.reports.lines import Line


def memory(lines: Sequence[Line]) -> Chart | None:
    """The candidate's peak memory."""
    values = [
        {
            **base(line),
            "mib": line.row.peak_mem_mib,
            "peak": text(line.row.peak_mem_mib, ",.0f", " MiB"),
            "tokens/s": text(line.row.tokens_per_s, ",.0f"),
        }
        for line in lines
        if line.counts and is_figure(line.row.peak_mem_mib) and (line.row.peak_mem_mib or 0) > 0
    ]
    mark = {"type": "point", "filled": True, "size": 70, "color": "var(--accent)", "opacity": 1}
    encoding = {"y": y_axis(), "x": log_axis("mib", "MiB"), "tooltip": tips("peak", "tokens/s")}
    about = "The most memory that the candidate's process held on the device."
    return chart("memory", "Peak memory", about, values, [{"mark": mark, "encoding": encoding}])


_CLOCKS = re.compile(r"(moved|steady) (\d+)>(\d+) MHz, (\d+) to (\d+)")


def clocks(lines: Sequence[Line]) -> Chart | None:
    """The card's clock while each line was timed."""
    values = []
    for line in lines:
        if line.counts and (found := _CLOCKS.fullmatch(line.row.flags.get("clocks", ""))):
            first, last, low, high = map(int, found.groups()[1:])
            mhz = {"first": first, "last": last, "low": low, "high": high}
            told = {
                "card": line.row.flags.get("card_after", ""),
                "throttle": line.row.flags.get("throttle", ""),
            }
            values.append({**base(line), **mhz, "clock": found[1], **told})
    x = x_axis("low", "SM clock, MHz", scale={"zero": False, "padding": 12})
    colour = hue("clock", ["steady", "moved"], ["var(--good)", "var(--bad)"])
    shown = tips("clock", "first", "last", "low", "high", "throttle", "card")
    layers: list[Spec] = [
        {
            "mark": {"type": "rule", "aria": False, "strokeWidth": 2},
            "encoding": {"y": y_axis(), "x": x, "x2": {"field": "high"}, "color": colour},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
            "encoding": {"y": y_axis(), "x": {**x, "field": "last"}, "color": colour, "tooltip": shown},
        },
    ]
    about = "The lowest and the highest clock under load while a case was timed; the point is where it ended."
    return chart("clocks", "Clocks", about, values, layers)
