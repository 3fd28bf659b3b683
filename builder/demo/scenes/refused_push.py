"""A refused push that exits 0."""

from __future__ import annotations

from collections.abc import Iterator

from builder.demo.loopback import FULL
from builder.demo.stage import Act, Stage
from builder.errors import Exit

PLACE = 1
NEEDS_TORCH = False
MORAL = "A script that pushes in a loop sees success. To ferry a push counts once a version was named."


def play(stage: Stage) -> Iterator[Act]:
    """Both sessions of the account are taken: the service says so, with HTTP status 200."""
    stage.kernel("train")
    stage.service.refusal = FULL
    yield stage.kaggle("kernels push -p train --accelerator NvidiaTeslaT4")
    yield stage.ferry("push --accelerator NvidiaTeslaT4", r".*refused.*|^hint.*", Exit.CAPACITY)
