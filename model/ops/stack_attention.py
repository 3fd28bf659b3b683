"""The jitted attention of the op `stack`: one head after the other, or several at once.

The names of widths and the layout of the scratch memory are those of `stack_kernel`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .tiles import halves, load_halves, load_rows, product


@triton.jit
def attend(
    scratch_ptr,
    weights_ptr,
    valid_ptr,
    rows,
    end,
    seq_len,
    WIDTH: tl.constexpr,
    HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
    SPLIT_ATTENTION: tl.constexpr,
    SPLIT_OUT: tl.constexpr,
    BLOCK_N: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Attention of these rows to the keys before `end`, through the output projection, not yet unscaled."""
    ACROSS: tl.constexpr = HEADS * HEAD_DIM
    BLOCK_M: tl.constexpr = rows.shape[0]
    lanes = tl.arange(0, HEAD_DIM)
    width = tl.arange(0, WIDTH)
    part = ACROSS * seq_len
    lo_offset = 3 * part
    rows_ok = (rows < seq_len)[:, None]
    total = tl.zeros([BLOCK_M, WIDTH], tl.float32)
    for head in tl.range(0, HEADS, num_stages=1):
        q_ptr = scratch_ptr + head * seq_len * HEAD_DIM
        q_hi, q_lo = load_rows(
            q_ptr + rows[:, None] * HEAD_DIM + lanes[None, :], lo_offset, rows_ok, SPLIT_ATTENTION
        )
        top = tl.full([BLOCK_M], float("-inf"), tl.float32)
        shares = tl.zeros([BLOCK_M], tl.float32)
        result = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
        for start in tl.range(0, end, BLOCK_N, num_stages=STAGES):
            keys = start + tl.arange(0, BLOCK_N)
            keys_ok = keys < end  # what lies beyond may not be written yet
            cells = q_ptr + part + keys[:, None] * HEAD_DIM + lanes[None, :]
            k_hi, k_lo = load_rows(cells, lo_offset, keys_ok[:, None], SPLIT_ATTENTION)
            v_hi, v_lo = load_rows(cells + part, lo_offset, keys_ok[:, None], SPLIT_ATTENTION)
            scores = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
            scores = product(q_hi, q_lo, tl.trans(k_hi), tl.trans(k_lo), scores, SPLIT_ATTENTION)
            if MASKED:
                keys_ok = tl.load(valid_ptr + keys, mask=keys_ok, other=0) != 0
            seen = keys_ok[None, :]
            if CAUSAL:
                seen = seen & (keys[None, :] <= rows[:, None])
            scores = tl.where(seen, scores, float("-inf"))
            new_top = tl.maximum(top, tl.max(scores, 1))
            # Where no key counts so far, -inf - -inf would be nan.
            finite = tl.where(new_top == float("-inf"), 0.0, new_top) if MASKED else new_top
            shrink = tl.exp2(top - finite)
            p = tl.exp2(scores - finite[:, None])
            shares = shares * shrink + tl.sum(p, 1)
            p_hi, p_lo = halves(p, SPLIT_ATTENTION)
            result = product(p_hi, p_lo, v_hi, v_lo, result * shrink[:, None], SPLIT_ATTENTION)
            top = new_top
        if MASKED:
            shares = tl.where(shares == 0.0, 1.0, shares)
        o_hi, o_lo = halves(result / shares[:, None], SPLIT_OUT)
        w_ptr = weights_ptr + head * HEAD_DIM * WIDTH
        w_hi, w_lo = load_halves(w_ptr + lanes[:, None] * WIDTH + width[None, :], ACROSS * WIDTH, SPLIT_OUT)
        total = product(o_hi, o_lo, w_hi, w_lo, total, SPLIT_OUT)
    return total


@triton.jit
def attend_together(
    scratch_ptr,
    weights_ptr,
    valid_ptr,
    rows,
    end,
    seq_len,
    WIDTH: tl.constexpr,
    HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
    SPLIT_ATTENTION: tl.constexpr,
    SPLIT_OUT: tl.constexpr,
    TOGETHER: tl.constexpr,
    BLOCK_N: tl.constexpr,
    STAGES: tl.constexpr,
):
    """The same as `attend`, TOGETHER heads at once: what few rows wait for, they wait for once."""
    ACROSS: tl.constexpr = HEADS * HEAD_DIM
    DEPTH: tl.constexpr = TOGETHER * HEAD_DIM
    BLOCK_M: tl.constexpr = rows.shape[0]
    lanes = tl.arange(0, HEAD_DIM)[None, None, :]
    width = tl.arange(0, WIDTH)
    depth = tl.arange(0, DEPTH)
    part = ACROSS * seq_len
    lo_offset = 3 * part
    rows_ok = (rows < seq_len)[None, :, None]
    total = tl.zeros([BLOCK_M, WIDTH], tl.float32)
    for first in tl.range(0, HEADS, TOGETHER, num_stages=1):
        heads_ptr = scratch_ptr + (first + tl.arange(0, TOGETHER))[:, None, None] * seq_len * HEAD_DIM
        q_hi, q_lo = load_rows(
            heads_ptr + rows[None, :, None] * HEAD_DIM + lanes, lo_offset, rows_ok, SPLIT_ATTENTION
        )
        top = tl.full([TOGETHER, BLOCK_M], float("-inf"), tl.float32)
        shares = tl.zeros([TOGETHER, BLOCK_M], tl.float32)
        result = tl.zeros([TOGETHER, BLOCK_M, HEAD_DIM], tl.float32)
        for start in tl.range(0, end, BLOCK_N, num_stages=STAGES):
            keys = start + tl.arange(0, BLOCK_N)
            keys_ok = keys < end  # what lies beyond may not be written yet
            cells = heads_ptr + part + keys[None, :, None] * HEAD_DIM + lanes
            k_hi, k_lo = load_rows(cells, lo_offset, keys_ok[None, :, None], SPLIT_ATTENTION)
            v_hi, v_lo = load_rows(cells + part, lo_offset, keys_ok[None, :, None], SPLIT_ATTENTION)
            scores = tl.zeros([TOGETHER, BLOCK_M, BLOCK_N], tl.float32)
            scores = product(
                q_hi, q_lo, tl.permute(k_hi, 0, 2, 1), tl.permute(k_lo, 0, 2, 1), scores, SPLIT_ATTENTION
            )
            if MASKED:
                keys_ok = tl.load(valid_ptr + keys, mask=keys_ok, other=0) != 0
            seen = keys_ok[None, :]
            if CAUSAL:
                seen = seen & (keys[None, :] <= rows[:, None])
            scores = tl.where(seen[None, :, :], scores, float("-inf"))
            new_top = tl.maximum(top, tl.max(scores, 2))
            finite = tl.where(new_top == float("-inf"), 0.0, new_top) if MASKED else new_top
            shrink = tl.exp2(top - finite)
            p = tl.exp2(scores - finite[:, :, None])
            shares = shares * shrink + tl.sum(p, 2)
            p_hi, p_lo = halves(p, SPLIT_ATTENTION)
            result = product(p_hi, p_lo, v_hi, v_lo, result * shrink[:, :, None], SPLIT_ATTENTION)
            top = new_top
        if MASKED:
            shares = tl.where(shares == 0.0, 1.0, shares)
        merged = tl.reshape(tl.permute(result / shares[:, :, None], 1, 0, 2), [BLOCK_M, DEPTH])
        o_hi, o_lo = halves(merged, SPLIT_OUT)
        w_ptr = weights_ptr + (first * HEAD_DIM + depth[:, None]) * WIDTH + width[None, :]
        w_hi, w_lo = load_halves(w_ptr, ACROSS * WIDTH, SPLIT_OUT)
        total = product(o_hi, o_lo, w_hi, w_lo, total, SPLIT_OUT)
    return total
