"""What the pictures of a report share. Colours are CSS variables: light, dark, paper need no redrawing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from builder.reports.lines import Line

Spec = dict[str, Any]
Datum = dict[str, Any]

MOST = 300  # lines in a picture; a longer one nobody reads
LEAST = 1e-9  # what stands for 0 on an axis that has none
_STEP = 24  # pixels a line
_LONG = 60  # lines
SIDES = ("baseline", "candidate")
SIDE_HUES = ["var(--baseline)", "var(--accent)"]
HUES = [f"var(--hue{number})" for number in range(1, 9)]
OTHER = "var(--baseline)"  # what is none of the named


@dataclass(frozen=True)
class Chart:
    """A picture: its name in the page's addresses, title, what it shows in a sentence, specification.

    `anchors` are the rows that it shows; one that `is_long` has a window of its own to scroll in.
    """

    name: str
    title: str
    about: str
    spec: Spec
    anchors: tuple[str, ...]
    note: str = ""
    is_long: bool = False


def is_figure(value: float | None) -> bool:
    """Whether there is a number that can be drawn."""
    return value is not None and math.isfinite(value)


def base(line: Line) -> Datum:
    """Return what every mark knows: its row on the page, and its case's label."""
    return {"row": line.anchor, "case": line.label}


def y_axis(**more: Any) -> Spec:
    """Return the axis of cases, in their order."""
    axis = {"title": None, "ticks": False, "domain": False, "grid": True}
    return {"field": "case", "type": "nominal", "sort": None, "axis": axis, **more}


def x_axis(field: str, title: str, **more: Any) -> Spec:
    """Return an axis of figures."""
    axis = {"title": title, "labelFlush": True, "tickCount": 6, "format": "~r", "labelOverlap": True}
    return {"field": field, "type": "quantitative", "axis": axis, **more}


def log_axis(field: str, title: str, **scale: Any) -> Spec:
    """Return an axis of figures on a logarithmic scale."""
    return x_axis(field, title, scale={"type": "log", "nice": False, "padding": 12, **scale})


def hue(field: str, names: Sequence[str], colours: Sequence[str], title: str | None = None) -> Spec:
    """Return the colours of a field's values."""
    scale = {"domain": list(names), "range": list(colours)}
    return {"field": field, "type": "nominal", "scale": scale, "legend": {"title": title}}


def tips(*fields: str) -> list[Spec]:
    """Return what is shown while the pointer rests on a mark."""
    return [{"field": "case", "title": "case"}, *({"field": name, "title": name} for name in fields)]


def text(value: float | None, form: str = ".4g", unit: str = "") -> str:
    """Return a figure as a text; none as nothing."""
    return "" if value is None else f"{value:{form}}{unit}"


def chart(
    name: str, title: str, about: str, values: Sequence[Datum], layers: Sequence[Spec], height: int = 0
) -> Chart | None:
    """Return the picture of the first `MOST` cases, or None when there is nothing to show.

    `height` is in pixels; without one each case has a line of its own.
    """
    if not values:
        return None
    cases = list(dict.fromkeys(str(datum["case"]) for datum in values))
    shown = set(cases[:MOST])
    kept = [datum for datum in values if datum["case"] in shown]
    spec = {
        "data": {"values": kept},
        "description": f"{title}. {about}",
        "width": "container",
        "height": height or _STEP * len(shown),
        "layer": list(layers),
    }
    note = f"The first {MOST} of {len(cases)}; the table has all." if len(cases) > MOST else ""
    anchors = tuple(dict.fromkeys(str(datum["row"]) for datum in kept))
    return Chart(name, title, about, spec, anchors, note, len(shown) > _LONG and not height)
