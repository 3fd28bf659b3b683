"""The shapes there are."""

from __future__ import annotations

from builder.cli._listing import listing
from harness.events import to_plain
from harness.shapes import SHAPES

command = listing(
    "shapes", "List the shapes with their sizes.", lambda: [to_plain(shape) for shape in SHAPES.values()]
)
