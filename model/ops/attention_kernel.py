"""The jitted body of the op `attention`; what it computes and how it is called stands there.

A row of qkv holds q, then k, then v, each head by head; the low halves stand `lo_offset` elements further.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .operand_kernel import store_operand
from .tiles import halves, load_halves, load_rows, product

# Shares are taken 2^SHIFT times as large, and so is their sum: float16 has no finer steps than 2^-24.
SHIFT = tl.constexpr(8.0)
FARTHEST = tl.constexpr(-1.0e30)  # below every score, and finite: a difference of it with itself is zero


@triton.jit
def step(
    acc, total, top, q_hi, q_lo, k_ptr, v_ptr, valid_ptr, rows, keys, seq_len, stride, lo_offset,
    EDGE: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Take one block of keys in; EDGE: not every query sees every key of it, or some are beyond the end."""
    cells = keys[:, None] * stride
    if EDGE:
        k_hi, k_lo = load_rows(k_ptr + cells, lo_offset, (keys < seq_len)[:, None], SPLIT)
    else:
        k_hi, k_lo = load_halves(k_ptr + cells, lo_offset, SPLIT)
    scores = product(
        q_hi,
        q_lo,
        tl.trans(k_hi),
        tl.trans(k_lo),
        tl.zeros([rows.shape[0], keys.shape[0]], tl.float32),
        SPLIT,
    )
    if EDGE:
        seen = (keys < seq_len)[None, :]
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None])
        scores = tl.where(seen, scores, float("-inf"))
    if MASKED:
        counts = tl.load(valid_ptr + keys, mask=keys < seq_len, other=0)
        scores = tl.where((counts != 0)[None, :], scores, float("-inf"))
    new_top = tl.maximum(top, tl.max(scores, 1))
    shares = tl.exp2(scores - (new_top - SHIFT)[:, None])
    fade = tl.exp2(top - new_top)
    total = total * fade + tl.sum(shares, 1)
    s_hi, s_lo = halves(shares, SPLIT)
    if EDGE:
        v_hi, v_lo = load_rows(v_ptr + cells, lo_offset, (keys < seq_len)[:, None], SPLIT)
    else:
        v_hi, v_lo = load_halves(v_ptr + cells, lo_offset, SPLIT)
    acc = product(s_hi, s_lo, v_hi, v_lo, acc * fade[:, None], SPLIT)
    return acc, total, new_top


@triton.jit
def attention_kernel(
    qkv_ptr,
    out_ptr,
    valid_ptr,
    seq_len,
    blocks,
    lo_offset,
    out_stride,
    out_lo,
    HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
    SPLIT: tl.constexpr,
    OUT_SPLIT: tl.constexpr,
    OUT_TRIPLED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    STAGES: tl.constexpr,
):
    """One block of queries of one head; the last block of a sequence, with the longest walk, comes first."""
    ACROSS: tl.constexpr = HEADS * HEAD_DIM
    block = blocks - 1 - tl.program_id(0) % blocks
    pair = tl.program_id(0) // blocks
    sequence = (pair // HEADS).to(tl.int64)
    head = pair % HEADS
    first = sequence * seq_len  # the sequence's first token, of 64 bits
    lanes = tl.arange(0, HEAD_DIM)
    q_ptr = qkv_ptr + first * (3 * ACROSS) + head * HEAD_DIM + lanes[None, :]
    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    cells = rows.to(tl.int64)[:, None] * (3 * ACROSS)
    q_hi, q_lo = load_rows(q_ptr + cells, lo_offset, (rows < seq_len)[:, None], SPLIT)

    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    top = tl.full([BLOCK_M], FARTHEST, tl.float32)
    if CAUSAL:
        inner = block * BLOCK_M // BLOCK_N * BLOCK_N
        end = tl.minimum((block + 1) * BLOCK_M, seq_len)
    else:
        inner = seq_len // BLOCK_N * BLOCK_N
        end = seq_len
    for start in tl.range(0, inner, BLOCK_N, num_stages=STAGES):
        keys = start + tl.arange(0, BLOCK_N)
        acc, total, top = step(
            acc, total, top, q_hi, q_lo, q_ptr + ACROSS, q_ptr + 2 * ACROSS, valid_ptr + first,
            rows, keys.to(tl.int64), seq_len, 3 * ACROSS, lo_offset, False, CAUSAL, MASKED, SPLIT,
        )  # fmt: skip
    for start in tl.range(inner, end, BLOCK_N, num_stages=1):
        keys = start + tl.arange(0, BLOCK_N)
        acc, total, top = step(
            acc, total, top, q_hi, q_lo, q_ptr + ACROSS, q_ptr + 2 * ACROSS, valid_ptr + first,
            rows, keys.to(tl.int64), seq_len, 3 * ACROSS, lo_offset, True, CAUSAL, MASKED, SPLIT,
        )  # fmt: skip
    result = acc / tl.where(total > 0.0, total, 1.0)[:, None]
    columns = head * HEAD_DIM + lanes
    tokens = first + rows.to(tl.int64)
    mask = (rows < seq_len)[:, None] & (lanes >= 0)[None, :]
    store_operand(out_ptr, tokens, columns, result, mask, out_stride, out_lo, ACROSS, OUT_SPLIT, OUT_TRIPLED)
