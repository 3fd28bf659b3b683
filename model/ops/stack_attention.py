"""The jitted attention of the op `stack`: one head after the other, or several at once.

Names of widths and the layout of the scratch memory are those of `stack_kernel`. A head's result takes the
place of its q there, as the halves that the output projection reads: nothing is kept from head to head.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .tiles import halves, load_halves, load_rows, product, store_halves


@triton.jit
def valid_prefix(valid_ptr, end):
    """How many of the keys before `end` count before the first that does not."""
    sure = end
    for start in tl.range(0, end, 1024, num_stages=1):
        keys = start + tl.arange(0, 1024)
        counts = tl.load(valid_ptr + keys, mask=keys < end, other=1) != 0
        sure = tl.minimum(sure, tl.min(tl.where(counts, end, keys)))
    return sure


@triton.jit
def hide(scores, valid_ptr, keys, rows, sure, end, CAUSAL: tl.constexpr, MASKED: tl.constexpr):
    """Scores [rows, keys], or such of several heads, with -inf where a row does not see a key."""
    # A key that does not count lies behind every row: one comparison for each score.
    places = tl.where(keys < end, keys, 0x40000000)
    look = sure < end if MASKED else False
    if look:
        counts = tl.load(valid_ptr + keys, mask=keys < end, other=0) != 0
        places = tl.where(counts, places, 0x40000000)
    seen = places[None, :] <= (rows[:, None] if CAUSAL else 0x3FFFFFFF)
    if len(scores.shape) == 3:
        seen = seen[None, :, :]
    return tl.where(seen, scores, float("-inf"))


@triton.jit
def walk(
    q_hi,
    q_lo,
    top,
    shares,
    result,
    k_ptr,
    v_ptr,
    lo_offset,
    valid_ptr,
    rows,
    sure,
    begin,
    end,
    ALL_SEEN: tl.constexpr,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
    SPLIT: tl.constexpr,
    BLOCK_N: tl.constexpr,
    STAGES: tl.constexpr,
):
    """One head over the keys from `begin` to `end`: running maximum, sum of shares, their sum of values.

    The first `sure` keys count. ALL_SEEN: all rows see all of these keys, and they come in whole steps.
    """
    lanes = tl.arange(0, q_hi.shape[1])
    for start in tl.range(begin, end, BLOCK_N, num_stages=STAGES):
        keys = start + tl.arange(0, BLOCK_N)
        cells = keys[:, None] * q_hi.shape[1] + lanes[None, :]
        scores = tl.zeros([rows.shape[0], BLOCK_N], tl.float32)
        if ALL_SEEN:
            k_hi, k_lo = load_halves(k_ptr + cells, lo_offset, SPLIT)
            v_hi, v_lo = load_halves(v_ptr + cells, lo_offset, SPLIT)
            scores = product(q_hi, q_lo, tl.trans(k_hi), tl.trans(k_lo), scores, SPLIT)
        else:
            keys_ok = keys < end  # what lies beyond may not be written yet
            k_hi, k_lo = load_rows(k_ptr + cells, lo_offset, keys_ok[:, None], SPLIT)
            v_hi, v_lo = load_rows(v_ptr + cells, lo_offset, keys_ok[:, None], SPLIT)
            scores = product(q_hi, q_lo, tl.trans(k_hi), tl.trans(k_lo), scores, SPLIT)
            scores = hide(scores, valid_ptr, keys, rows, sure, end, CAUSAL, MASKED)
        new_top = tl.maximum(top, tl.max(scores, 1))
        # Where no key counts so far, -inf - -inf would be nan.
        bare = MASKED and not ALL_SEEN
        finite = tl.where(new_top == float("-inf"), 0.0, new_top) if bare else new_top
        shrink = tl.exp2(top - finite)
        p = tl.exp2(scores - finite[:, None])
        shares = shares * shrink + tl.sum(p, 1)
        p_hi, p_lo = halves(p, SPLIT)
        result = product(p_hi, p_lo, v_hi, v_lo, result * shrink[:, None], SPLIT)
        top = new_top
    return top, shares, result


@triton.jit
def attend(
    scratch_ptr,
    valid_ptr,
    rows,
    sure,
    whole,
    end,
    seq_len,
    HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
    SPLIT_ATTENTION: tl.constexpr,
    SPLIT_OUT: tl.constexpr,
    BLOCK_N: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Attention of these rows to the keys before `end`; all rows see those before `whole`, whole steps."""
    BLOCK_M: tl.constexpr = rows.shape[0]
    part = HEADS * HEAD_DIM * seq_len
    lo_offset = 3 * part
    rows_ok = (rows < seq_len)[:, None]
    cells = rows[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :]
    for head in tl.range(0, HEADS, num_stages=1):
        q_ptr = scratch_ptr + head * seq_len * HEAD_DIM
        q_hi, q_lo = load_rows(q_ptr + cells, lo_offset, rows_ok, SPLIT_ATTENTION)
        top = tl.full([BLOCK_M], float("-inf"), tl.float32)
        shares = tl.zeros([BLOCK_M], tl.float32)
        result = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
        top, shares, result = walk(
            q_hi, q_lo, top, shares, result, q_ptr + part, q_ptr + 2 * part, lo_offset, valid_ptr,
            rows, sure, 0, whole, True, CAUSAL, MASKED, SPLIT_ATTENTION, BLOCK_N, STAGES,
        )  # fmt: skip
        top, shares, result = walk(
            q_hi, q_lo, top, shares, result, q_ptr + part, q_ptr + 2 * part, lo_offset, valid_ptr,
            rows, sure, whole, end, False, CAUSAL, MASKED, SPLIT_ATTENTION, BLOCK_N, STAGES,
        )  # fmt: skip
        if MASKED:
            shares = tl.where(shares == 0.0, 1.0, shares)
        tl.debug_barrier()  # others of the block may still read this head's q
        store_halves(q_ptr + cells, lo_offset, result / shares[:, None], rows_ok, SPLIT_OUT)


@triton.jit
def attend_together(
    scratch_ptr,
    valid_ptr,
    rows,
    sure,
    end,
    seq_len,
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
    BLOCK_M: tl.constexpr = rows.shape[0]
    lanes = tl.arange(0, HEAD_DIM)[None, None, :]
    part = HEADS * HEAD_DIM * seq_len
    lo_offset = 3 * part
    rows_ok = (rows < seq_len)[None, :, None]
    for first in tl.range(0, HEADS, TOGETHER, num_stages=1):
        heads_ptr = scratch_ptr + (first + tl.arange(0, TOGETHER))[:, None, None] * seq_len * HEAD_DIM
        q_ptr = heads_ptr + rows[None, :, None] * HEAD_DIM + lanes
        q_hi, q_lo = load_rows(q_ptr, lo_offset, rows_ok, SPLIT_ATTENTION)
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
            scores = hide(scores, valid_ptr, keys, rows, sure, end, CAUSAL, MASKED)
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
        tl.debug_barrier()  # others of the block may still read these heads' q
        store_halves(q_ptr, lo_offset, result / shares[:, :, None], rows_ok, SPLIT_OUT)
