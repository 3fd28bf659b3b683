"""Another GPU than the one asked for."""

from __future__ import annotations

from collections.abc import Iterator

from builder.demo.loopback import USER
from builder.demo.stage import PUSHED, Act, Stage
from builder.errors import Exit

PLACE = 2
NEEDS_TORCH = False
MORAL = (
    "A time, and no word of the card it is of (made up here: a P100). ferry's kernel looks before its "
    "first case; on another card it measures nothing."
)
P100 = {"index": 0, "name": "Tesla P100-PCIE-16GB", "capability": "6.0", "memory_mib": 16384, "driver": "570"}


def play(stage: Stage) -> Iterator[Act]:
    """Ask for two T4 and get one P100, for which recent builds of torch have no code."""
    stage.kernel("train")
    stage.hardware([P100])
    yield stage.kaggle("kernels push -p train --accelerator NvidiaTeslaT4", PUSHED)
    yield stage.kaggle(f"kernels logs -f {USER}/train")
    yield stage.kaggle(f"kernels status {USER}/train/1")
    yield stage.ferry("run --accelerator NvidiaTeslaT4", r"asked for .*", Exit.WRONG_ACCELERATOR)
