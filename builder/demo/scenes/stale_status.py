"""A status of the version before."""

from __future__ import annotations

from collections.abc import Iterator

from builder.demo.loopback import USER
from builder.demo.stage import PUSHED, Act, Stage

PLACE = 3
NEEDS_TORCH = False
MORAL = (
    "Version 2 is in the queue; COMPLETE was version 1's, and so is the output that a script fetches now. "
    "ferry pushes each run under a name of its own, and asks for its version by number."
)


def play(stage: Stage) -> Iterator[Act]:
    """Push a kernel, see it end, push it again and ask how it is."""
    stage.kernel("train")
    yield stage.kaggle("kernels push -p train", PUSHED)
    stage.service.finish("train")
    stage.service.is_busy = True
    yield stage.kaggle("kernels push -p train", PUSHED)
    yield stage.kaggle(f"kernels status {USER}/train")
    yield stage.ferry("push --accelerator NvidiaTeslaT4", r"^run .* is \w+")
    yield stage.ferry("status", r"part 1  queued.*")
