"""How the ops write an operand; what one is stands in `operand`."""

from __future__ import annotations

import triton
import triton.language as tl

from .tiles import halves


@triton.jit
def store_operand(
    out_ptr, rows, columns, value, mask, stride, lo_offset,
    WIDTH: tl.constexpr, SPLIT: tl.constexpr, TRIPLED: tl.constexpr,
):  # fmt: skip
    """Write a float32 tile of an operand whose memory begins at out_ptr."""
    hi, lo = halves(value, SPLIT)
    cells = rows.to(tl.int64)[:, None] * stride + columns[None, :]
    if TRIPLED:
        tl.store(out_ptr + cells, lo, mask=mask)
        tl.store(out_ptr + cells + WIDTH, hi, mask=mask)
        tl.store(out_ptr + cells + 2 * WIDTH, hi, mask=mask)
    else:
        tl.store(out_ptr + cells, hi, mask=mask)
        if SPLIT:
            tl.store(out_ptr + cells + lo_offset, lo, mask=mask)
