"""The routes of gpuferry's own model."""

from __future__ import annotations

from builder import spec
from builder.cli._listing import listing

command = listing(
    "routes",
    "List the routes: named ways to run the model.",
    lambda: [{"route": name} for name in spec.routes()],
)
