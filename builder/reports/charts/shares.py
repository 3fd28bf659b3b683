"""What time goes to: stages of the work, routes and levers."""

from __future__ import annotations

from collections.abc import Sequence

from builder.reports.charts.parts import (
    HUES,
    OTHER,
    Chart,
    Spec,
    chart,
    hue,
    log_axis,
    text,
    tips,
    x_axis,
    y_axis,
)
from builder.reports.lines import Line
from builder.reports.stages import NAMES, stages_of
from builder.results import cell
from builder.terminal import one_line

_MOST_NAMES = 24  # in a legend; of more the pointer tells


def stages(lines: Sequence[Line]) -> Chart | None:
    """Each stage's share of the device's work."""
    values = [
        {
            "row": line.anchor,
            "case": f"{line.label} {profile.side}",
            "stage": stage.name,
            "place": NAMES.index(stage.name),
            "share": stage.share,
            "of the work": f"{stage.share:.1%}",
            "could buy at most": f"{stage.most:.2f}×",
        }
        for line in lines
        if line.counts
        for profile in line.record.profiles
        for stage in stages_of(profile)
    ]
    met = {datum["stage"] for datum in values}
    colours = dict(zip(NAMES, [*HUES[: len(NAMES) - 1], OTHER], strict=True))
    names = [name for name in NAMES if name in met]
    about = "What the device's time goes to, by kernels' names; a share s buys 1/(1-s) at most."
    x = x_axis("share", "share of the device's work", stack="zero", scale={"domain": [0, 1]})
    encoding = {
        "y": y_axis(),
        "x": {**x, "axis": {**x["axis"], "format": ".0%"}},
        "color": hue("stage", names, [colours[name] for name in names]),
        "order": {"field": "place", "type": "quantitative"},
        "tooltip": tips("stage", "of the work", "could buy at most"),
    }
    return chart("stages", "Stages", about, values, [{"mark": {"type": "bar"}, "encoding": encoding}])


def ablation(lines: Sequence[Line]) -> Chart | None:
    """Routes and levers of one run side by side, on the sizes that several of them were timed on."""
    timed = [line for line in lines if line.counts and line.row.median_ms]
    sizes: dict[tuple[str, ...], list[Line]] = {}
    for line in timed:
        row = line.row
        sizes.setdefault((line.run, row.shape, row.dtype, row.protocol, line.settings), []).append(line)
    several = {key: ours for key, ours in sizes.items() if len(ours) > 1}
    plural = {name for name in (0, 2, 3, 4) if len({key[name] for key in several}) > 1}
    values = [
        {
            "row": line.anchor,
            "case": " · ".join([key[1], *(key[part][-6:] for part in sorted(plural))]),
            "setting": one_line(f"{line.row.route} {cell(line.row.levers).replace('LEVER_', '')}".strip()),
            "ms": line.row.median_ms,
            "time": text(line.row.median_ms, unit=" ms"),
            "against the first": f"{(ours[0].row.median_ms or 0) / (line.row.median_ms or 1):.3f}×",
        }
        for key, ours in several.items()
        for line in ours
    ]
    names = list(dict.fromkeys(str(datum["setting"]) for datum in values))
    legend = {"title": None} if len(names) <= _MOST_NAMES else None
    layers: list[Spec] = [
        {
            "mark": {"type": "point", "filled": True, "size": 75, "opacity": 0.9},
            "encoding": {
                "y": y_axis(),
                "x": log_axis("ms", "milliseconds"),
                "color": {**hue("setting", names, HUES), "legend": legend},
                "shape": {
                    "field": "setting",
                    "type": "nominal",
                    "scale": {"domain": names},
                    "legend": legend,
                },
                "tooltip": tips("setting", "time", "against the first"),
            },
        }
    ]
    about = "The same sizes in the same run under each route and lever; the first is that of the plan."
    return chart("ablation", "Ablation", about, values, layers)
