"""The routes of gpuferry's own model."""

from __future__ import annotations

from builder import declared
from builder.cli._listing import listing

command = listing(
    "routes",
    "List the routes: named ways to run the model. The first few choose among the others.",
    lambda: [
        *({"route": name, "does": about} for name, about in declared.choices().items()),
        *({"route": route.name, "does": route.about} for route in declared.files()),
    ],
)
