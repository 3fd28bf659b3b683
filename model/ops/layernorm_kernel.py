"""The jitted body of the op `layernorm`; what it computes and how it is called stands there."""

from __future__ import annotations

import triton
import triton.language as tl

from .operand_kernel import store_operand
from .tiles import normalised


@triton.jit
def layernorm_kernel(
    x_ptr,
    out_ptr,
    weight_ptr,
    bias_ptr,
    valid_ptr,
    tokens,
    x_stride,
    out_stride,
    lo_offset,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    OPERAND: tl.constexpr,
    SPLIT: tl.constexpr,
    TRIPLED: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Normalise ROWS rows."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    there = (rows < tokens)[:, None]
    cells = rows.to(tl.int64)[:, None] * x_stride + columns[None, :]
    x = tl.load(x_ptr + cells, mask=there & (columns < D)[None, :], other=0.0).to(tl.float32)
    n = normalised(x, columns, D, BLOCK)
    if OPERAND:
        store_operand(
            out_ptr, rows, columns, n, there & (columns < WIDTH)[None, :],
            out_stride, lo_offset, WIDTH, SPLIT, TRIPLED,
        )  # fmt: skip
    else:
        mask = columns < D
        weight = tl.load(weight_ptr + columns, mask=mask, other=0.0).to(tl.float32)
        bias = tl.load(bias_ptr + columns, mask=mask, other=0.0).to(tl.float32)
        y = n * weight[None, :] + bias[None, :]
        if MASKED:
            valid = tl.load(valid_ptr + rows, mask=rows < tokens, other=0)
            y = tl.where((valid != 0)[:, None], y, 0.0)
        cells = rows.to(tl.int64)[:, None] * out_stride + columns[None, :]
        tl.store(out_ptr + cells, y.to(out_ptr.dtype.element_ty), mask=there & mask[None, :])
