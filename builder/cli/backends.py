"""The backends: the places a kernel can run."""

from __future__ import annotations

from builder import backends
from builder.cli._listing import listing

command = listing(
    "backends",
    "List the backends: the places a kernel can run.",
    lambda: [{"backend": name, "about": backends.about(name)} for name in backends.names()],
)
