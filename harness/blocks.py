"""Cutting a tensor into blocks, so that what is done to each needs little memory. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

CROSSING_ELEMENTS = 1 << 24  # of an output that cross between host and device at once

Block = tuple[slice, ...]


def blocks(shape: Sequence[int], most: int) -> Iterator[Block]:
    """Yield indices that cut a tensor of this shape into views of at most `most` elements, in memory's order.

    The last axis is never cut: a row of it that is longer is a block of its own.
    """
    row = math.prod(shape[1:])
    if len(shape) < 2 or shape[0] * row <= most:
        yield ()
    elif row <= most:
        step = most // row
        for start in range(0, shape[0], step):
            yield (slice(start, min(start + step, shape[0])),)
    else:
        for start in range(shape[0]):
            for rest in blocks(shape[1:], most):
                yield (slice(start, start + 1), *rest)


def within(block: Block, index: Sequence[int]) -> tuple[int, ...]:
    """Return the whole tensor's index of an element that has `index` in the block."""
    starts = [part.start for part in block]
    return tuple(i + (starts[axis] if axis < len(starts) else 0) for axis, i in enumerate(index))
