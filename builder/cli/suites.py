"""The suites there are."""

from __future__ import annotations

from builder.cli._listing import listing
from harness.shapes import SUITES

command = listing(
    "suites",
    "List the suites: named lists of cases.",
    lambda: [{"suite": s.name, "shapes": len(s.shapes), "about": s.about} for s in SUITES.values()],
)
