"""The accelerator names there are and what each must turn out to be."""

from __future__ import annotations

from typing import Any

from builder.accelerators import GENERIC, KNOWN, Accelerator
from builder.cli._listing import listing


def _record(known: Accelerator) -> dict[str, Any]:
    """What it must turn out to be, and in the last column what became of it."""
    record = vars(known) | {"about": f"retired: {known.retired}" if known.retired else known.about}
    return {name: value for name, value in record.items() if name not in ("retired", "instead")}


command = listing(
    "accelerators",
    "List the names that `--accelerator` takes.",
    lambda: [_record(accelerator) for accelerator in KNOWN.values()],
    foot=f"on every other backend: {', '.join(GENERIC)}, or words of the device's name, such as h200",
)
