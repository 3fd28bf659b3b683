"""Noise that looks like a win."""

from __future__ import annotations

from collections.abc import Iterator

from builder import crossing
from builder.demo.stage import Act, Stage
from builder.errors import Exit

PLACE = 5
NEEDS_TORCH = False
MORAL = (
    "Both logs are of the same code, recorded half a minute apart on two busy cores: nothing became faster. "
    "Even the interval lies above 1; but the rounds of one run differ by more than that."
)


def play(stage: Stage) -> Iterator[Act]:
    """Compare two recorded runs of one code, by their medians and by everything that is in their logs."""
    stage.prop("medians.py")
    for name in ("old", "new"):
        crossing.parse_logs([stage.prop(f"{name}.log")], stage.folder / f"{name}.csv")
    yield stage.script("medians.py old.csv new.csv")
    yield stage.ferry("compare old.log new.log", r"^cannot tell: geomean.*", Exit.CANNOT_TELL)
