"""The accelerator names there are and what each must turn out to be."""

from __future__ import annotations

from builder.accelerators import GENERIC, KNOWN
from builder.cli._listing import listing

command = listing(
    "accelerators",
    "List the names that `--accelerator` takes.",
    lambda: [vars(accelerator) for accelerator in KNOWN.values()],
    foot=f"on every other backend: {', '.join(GENERIC)}, or words of the device's name, such as h200",
)
