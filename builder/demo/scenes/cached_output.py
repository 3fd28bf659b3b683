"""A cached output."""

from __future__ import annotations

from collections.abc import Iterator

from builder.demo.stage import Act, Stage
from builder.errors import Exit

PLACE = 4
NEEDS_TORCH = True
MORAL = (
    "It was right while it was checked. Under `strict` each timed call has an input of its own, and what "
    "comes out of timed calls is checked."
)
SIZES = "--batch-size 2 --seq-len 16 --d-model 32 --heads 4 --ffn-dim 32 --layers 2"


def play(stage: Stage) -> Iterator[Act]:
    """Time a model that answers from memory once it is warm: as the contest does, and by ferry's protocol."""
    stage.prop("remembers.py")
    yield stage.script(f"-m harness --model remembers.py {SIZES}", r"^summary[^|]*|^speedup.*")
    yield stage.ferry("run --model remembers.py --protocol strict", r"^t01\S+: .*", Exit.CASE_FAILED)
