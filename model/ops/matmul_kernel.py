"""The jitted bodies of the ops `matmul` and `library`; what they compute stands there."""

from __future__ import annotations

import triton
import triton.language as tl

from .operand_kernel import store_operand
from .tiles import gelu


@triton.jit
def place(tile, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """The tile's row and column among the tiles: GROUP_M rows are walked column by column."""
    group = tile // (GROUP_M * tiles_n)
    first = group * GROUP_M
    height = tl.minimum(tiles_m - first, GROUP_M)
    within = tile % (GROUP_M * tiles_n)
    return first + within % height, within // height


@triton.jit
def a_tile(a, row, k, half, tokens, stride, lo_offset, K: tl.constexpr, BLOCK_M: tl.constexpr,
           BLOCK_K: tl.constexpr, DESCRIPTORS: tl.constexpr):  # fmt: skip
    """A tile [BLOCK_M,BLOCK_K] of one half of a, 0 high and 1 low, zero beyond K."""
    if DESCRIPTORS:
        # Beyond the high half's rows stand the low half's; such rows are not stored.
        tile = a.load([row * BLOCK_M + half * tokens, k])
    else:
        rows = row * BLOCK_M + tl.arange(0, BLOCK_M)
        rows = tl.where(rows < tokens, rows, 0)
        depth = k + tl.arange(0, BLOCK_K)
        cells = rows.to(tl.int64)[:, None] * stride + depth[None, :] + half * lo_offset
        if K % BLOCK_K == 0:
            tile = tl.load(a + cells)
        else:
            tile = tl.load(a + cells, mask=(depth < K)[None, :], other=0.0)
    return tile


@triton.jit
def b_tile(b, k, column, half, K: tl.constexpr, N: tl.constexpr, BLOCK_K: tl.constexpr,
           BLOCK_N: tl.constexpr, DESCRIPTORS: tl.constexpr):  # fmt: skip
    """A tile [BLOCK_K,BLOCK_N] of one half of the weight; beyond K it meets zeros of a's."""
    if DESCRIPTORS:
        tile = b.load([k + half * K, column * BLOCK_N])
    else:
        depth = k + tl.arange(0, BLOCK_K)
        columns = column * BLOCK_N + tl.arange(0, BLOCK_N)
        cells = (depth[:, None] + half * K) * N + columns[None, :]
        if K % BLOCK_K == 0 and N % BLOCK_N == 0:
            tile = tl.load(b + cells)
        else:
            tile = tl.load(b + cells, mask=(depth < K)[:, None] & (columns < N)[None, :], other=0.0)
    return tile


@triton.jit
def finish(acc, bias_ptr, residual_ptr, out_ptr, row, column, tokens, out_stride, out_lo, unscale,
           STORED: tl.constexpr, BIASED: tl.constexpr, GELU: tl.constexpr, RESIDUAL: tl.constexpr,
           OUT_SPLIT: tl.constexpr, OUT_TRIPLED: tl.constexpr, BLOCK_M: tl.constexpr,
           BLOCK_N: tl.constexpr):  # fmt: skip
    """Scale, bias, GELU or residual, and write."""
    rows = row * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = column * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (rows < tokens)[:, None] & (columns < STORED)[None, :]
    t = acc * unscale
    if BIASED:
        t += tl.load(bias_ptr + columns, mask=columns < BIASED, other=0.0)[None, :]
    if GELU:
        t = gelu(t)
    if RESIDUAL:
        cells = rows.to(tl.int64)[:, None] * out_stride + columns[None, :]
        t += tl.load(residual_ptr + cells, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + cells, t, mask=mask)
    else:
        store_operand(out_ptr, rows, columns, t, mask, out_stride, out_lo, STORED, OUT_SPLIT, OUT_TRIPLED)


@triton.jit
def matmul_kernel(
    a,
    b,
    bias_ptr,
    out_ptr,
    residual_ptr,
    tokens,
    a_stride,
    a_lo,
    out_stride,
    out_lo,
    unscale,
    K: tl.constexpr,
    N: tl.constexpr,
    STORED: tl.constexpr,
    BIASED: tl.constexpr,
    SPLIT: tl.constexpr,
    GELU: tl.constexpr,
    RESIDUAL: tl.constexpr,
    OUT_SPLIT: tl.constexpr,
    OUT_TRIPLED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    STAGES: tl.constexpr,
    ORDERED: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
    PERSISTENT: tl.constexpr,
):
    """One tile of the output, or, persistent, every so many-th."""
    tiles_m = tl.cdiv(tokens, BLOCK_M)
    tiles_n: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
    DEEP: tl.constexpr = (K + BLOCK_K - 1) // BLOCK_K
    STEPS: tl.constexpr = 3 * DEEP if ORDERED else DEEP
    last = tiles_m * tiles_n if PERSISTENT else tl.program_id(0) + 1
    for tile in tl.range(tl.program_id(0), last, tl.num_programs(0), flatten=PERSISTENT):
        row, column = place(tile, tiles_m, tiles_n, GROUP_M)
        acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for step in tl.range(0, STEPS, num_stages=STAGES):
            k = (step % DEEP) * BLOCK_K
            if ORDERED:
                part = step // DEEP  # low · high, then high · low, then high · high
                a_half = (2 - part) // 2
                b_half = part % 2
            else:
                a_half = 0
                b_half = 0
            a_hi = a_tile(a, row, k, a_half, tokens, a_stride, a_lo, K, BLOCK_M, BLOCK_K, DESCRIPTORS)
            b_hi = b_tile(b, k, column, b_half, K, N, BLOCK_K, BLOCK_N, DESCRIPTORS)
            if SPLIT and not ORDERED:
                a_low = a_tile(a, row, k, 1, tokens, a_stride, a_lo, K, BLOCK_M, BLOCK_K, DESCRIPTORS)
                b_low = b_tile(b, k, column, 1, K, N, BLOCK_K, BLOCK_N, DESCRIPTORS)
                acc = tl.dot(a_low, b_hi, acc)
                acc = tl.dot(a_hi, b_low, acc)
            acc = tl.dot(a_hi, b_hi, acc)
        finish(
            acc, bias_ptr, residual_ptr, out_ptr, row, column, tokens, out_stride, out_lo, unscale,
            STORED, BIASED, GELU, RESIDUAL, OUT_SPLIT, OUT_TRIPLED, BLOCK_M, BLOCK_N,
        )  # fmt: skip


@triton.jit
def finish_kernel(
    product_ptr,
    bias_ptr,
    residual_ptr,
    out_ptr,
    tokens,
    out_stride,
    out_lo,
    unscale,
    N: tl.constexpr,
    STORED: tl.constexpr,
    BIASED: tl.constexpr,
    GELU: tl.constexpr,
    RESIDUAL: tl.constexpr,
    OUT_SPLIT: tl.constexpr,
    OUT_TRIPLED: tl.constexpr,
    TILES_N: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Read a tile of the product, finish it as `matmul` does, and write it."""
    row = tl.program_id(0) // TILES_N
    column = tl.program_id(0) % TILES_N
    rows = row * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = column * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (rows < tokens)[:, None] & (columns < STORED)[None, :]
    acc = tl.load(product_ptr + rows.to(tl.int64)[:, None] * N + columns[None, :], mask=mask, other=0.0)
    finish(
        acc, bias_ptr, residual_ptr, out_ptr, row, column, tokens, out_stride, out_lo, unscale,
        STORED, BIASED, GELU, RESIDUAL, OUT_SPLIT, OUT_TRIPLED, BLOCK_M, BLOCK_N,
    )  # fmt: skip
