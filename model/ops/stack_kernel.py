"""The jitted bodies of the op `stack`; what they compute and how they are called stands there.

Widths as the constants name them: D is the model's, WIDTH what it is padded to, HEAD_DIM a head's padded one,
HIDDEN the FFN's. A layer's float16 weights lie one after the other, qkv [WIDTH,3·HEADS·HEAD_DIM], out
[HEADS·HEAD_DIM,WIDTH], ffn_in [WIDTH,HIDDEN], ffn_out [HIDDEN,WIDTH], each matrix's high half followed by its
low half; so do its float32 vectors: the biases of these four, and 16 numbers of which the first four are
what each product is multiplied by. A sequence's scratch is [buffer, half, q or k or v, head, row, lane].
"""

from __future__ import annotations

import triton
import triton.language as tl

from .stack_attention import attend, attend_together, valid_prefix
from .tiles import gelu, halves, load_halves, load_rows, normalised, product, store_halves


@triton.jit
def project(
    x,
    weights_ptr,
    vectors_ptr,
    unscale,
    scratch_ptr,
    rows,
    seq_len,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    SPLIT_QKV: tl.constexpr,
    SPLIT_ATTENTION: tl.constexpr,
    CHUNK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Write q, k and v of these rows to the scratch, as the halves that attention reads."""
    ALL: tl.constexpr = 3 * HEADS * HEAD_DIM
    depth = tl.arange(0, WIDTH)
    n_hi, n_lo = halves(normalised(x, depth, D, WIDTH), SPLIT_QKV)
    for start in tl.range(0, ALL, CHUNK, num_stages=STAGES):
        columns = start + tl.arange(0, CHUNK)
        w_hi, w_lo = load_halves(
            weights_ptr + depth[:, None] * ALL + columns[None, :], WIDTH * ALL, SPLIT_QKV
        )
        result = product(n_hi, n_lo, w_hi, w_lo, tl.zeros([x.shape[0], CHUNK], tl.float32), SPLIT_QKV)
        result = result * unscale + tl.load(vectors_ptr + columns)[None, :]
        cells = ((columns // HEAD_DIM)[None, :] * seq_len + rows[:, None]) * HEAD_DIM + (columns % HEAD_DIM)[
            None, :
        ]
        store_halves(scratch_ptr + cells, ALL * seq_len, result, (rows < seq_len)[:, None], SPLIT_ATTENTION)


@triton.jit
def project_out(
    scratch_ptr,
    weights_ptr,
    rows,
    seq_len,
    WIDTH: tl.constexpr,
    HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    SPLIT_OUT: tl.constexpr,
    CHUNK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """The output projection of the heads' results in the scratch, not yet unscaled."""
    ACROSS: tl.constexpr = HEADS * HEAD_DIM
    width = tl.arange(0, WIDTH)
    total = tl.zeros([rows.shape[0], WIDTH], tl.float32)
    for start in tl.range(0, ACROSS, CHUNK, num_stages=STAGES):
        depth = start + tl.arange(0, CHUNK)
        cells = ((depth // HEAD_DIM)[None, :] * seq_len + rows[:, None]) * HEAD_DIM + (depth % HEAD_DIM)[
            None, :
        ]
        o_hi, o_lo = load_rows(
            scratch_ptr + cells, 3 * ACROSS * seq_len, (rows < seq_len)[:, None], SPLIT_OUT
        )
        w_hi, w_lo = load_halves(
            weights_ptr + depth[:, None] * WIDTH + width[None, :], ACROSS * WIDTH, SPLIT_OUT
        )
        total = product(o_hi, o_lo, w_hi, w_lo, total, SPLIT_OUT)
    return total


@triton.jit
def feed_forward(
    x,
    in_ptr,
    out_ptr,
    bias_ptr,
    unscale,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    HIDDEN: tl.constexpr,
    SPLIT_FFN: tl.constexpr,
    CHUNK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """The feed-forward of these rows, CHUNK hidden values at a time; its result is not yet unscaled."""
    width = tl.arange(0, WIDTH)
    n_hi, n_lo = halves(normalised(x, width, D, WIDTH), SPLIT_FFN)
    total = tl.zeros_like(x)
    for start in tl.range(0, HIDDEN, CHUNK, num_stages=STAGES):
        hidden = start + tl.arange(0, CHUNK)
        w_hi, w_lo = load_halves(
            in_ptr + width[:, None] * HIDDEN + hidden[None, :], WIDTH * HIDDEN, SPLIT_FFN
        )
        h = product(n_hi, n_lo, w_hi, w_lo, tl.zeros([x.shape[0], CHUNK], tl.float32), SPLIT_FFN)
        h = gelu(h * unscale + tl.load(bias_ptr + hidden)[None, :])
        h_hi, h_lo = halves(h, SPLIT_FFN)
        w_hi, w_lo = load_halves(
            out_ptr + hidden[:, None] * WIDTH + width[None, :], HIDDEN * WIDTH, SPLIT_FFN
        )
        total = product(h_hi, h_lo, w_hi, w_lo, total, SPLIT_FFN)
    return total


@triton.jit
def wait_for_others(progress_ptr, block, blocks, published, CAUSAL: tl.constexpr, FLAGS: tl.constexpr):
    """Say how many layers' keys this block has published, and wait until those it reads have as many."""
    tl.debug_barrier()
    tl.atomic_xchg(progress_ptr + block, published, sem="release")
    others = tl.arange(0, FLAGS)
    needed = others < (block if CAUSAL else blocks)
    least = published - 1
    while least < published:
        seen = tl.atomic_add(progress_ptr + others, tl.zeros_like(others), mask=needed, sem="acquire")
        least = tl.min(tl.where(needed, seen, published))
    tl.debug_barrier()


@triton.jit
def leave(progress_ptr, blocks, FLAGS: tl.constexpr):
    """The last block of a sequence to leave puts its flags back to zero, for the next launch."""
    left = tl.atomic_add(progress_ptr + FLAGS, 1, sem="acq_rel")
    if left == blocks - 1:
        tl.store(progress_ptr + tl.arange(0, FLAGS), tl.zeros([FLAGS], tl.int32))
        tl.store(progress_ptr + FLAGS, 0)


@triton.jit
def stack_kernel(
    x_ptr,
    y_ptr,
    valid_ptr,
    weights_ptr,
    vectors_ptr,
    scratch_ptr,
    flags_ptr,
    seq_len,
    blocks,
    first,
    last,
    LAYERS: tl.constexpr,
    D: tl.constexpr,
    WIDTH: tl.constexpr,
    HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    HIDDEN: tl.constexpr,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
    SPLIT_QKV: tl.constexpr,
    SPLIT_ATTENTION: tl.constexpr,
    SPLIT_OUT: tl.constexpr,
    SPLIT_FFN: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    TOGETHER: tl.constexpr,
    QKV_CHUNK: tl.constexpr,
    OUT_CHUNK: tl.constexpr,
    FFN_CHUNK: tl.constexpr,
    STAGES: tl.constexpr,
    BUFFERS: tl.constexpr,
    PROJECT_FIRST: tl.constexpr,
    ONE_LAUNCH: tl.constexpr,
    FLAGS: tl.constexpr,
):
    """Carry BLOCK_M rows of one sequence through the layers from `first` to before `last`, x in registers."""
    ACROSS: tl.constexpr = HEADS * HEAD_DIM
    OUT: tl.constexpr = 2 * WIDTH * 3 * ACROSS
    FFN_IN: tl.constexpr = OUT + 2 * ACROSS * WIDTH
    FFN_OUT: tl.constexpr = FFN_IN + 2 * WIDTH * HIDDEN
    LAYER_WEIGHTS: tl.constexpr = FFN_OUT + 2 * HIDDEN * WIDTH
    OUT_BIAS: tl.constexpr = 3 * ACROSS
    FFN_IN_BIAS: tl.constexpr = OUT_BIAS + WIDTH
    FFN_OUT_BIAS: tl.constexpr = FFN_IN_BIAS + HIDDEN
    UNSCALE: tl.constexpr = FFN_OUT_BIAS + WIDTH
    LAYER_VECTORS: tl.constexpr = UNSCALE + 16

    WAITS: tl.constexpr = ONE_LAUNCH and FLAGS > 1
    if WAITS:
        # Tickets follow the order in which blocks start, so whatever a block waits for has started.
        ticket = tl.atomic_add(flags_ptr, 1, sem="relaxed")
        if ticket == tl.num_programs(0) - 1:
            tl.store(flags_ptr, 0)
        sequence = ticket // blocks
        block = ticket % blocks
    else:
        # The later blocks of a causal sequence have more to attend to: they go first.
        sequence = tl.program_id(0) // blocks
        block = blocks - 1 - tl.program_id(0) % blocks

    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.arange(0, WIDTH)
    first_row = sequence.to(tl.int64) * seq_len
    cells = first_row * D + rows[:, None] * D + columns[None, :]
    cells_ok = (rows < seq_len)[:, None] & (columns < D)[None, :]
    x = tl.load(x_ptr + cells, mask=cells_ok, other=0.0).to(tl.float32)
    valid_ptr += first_row
    if MASKED:
        rows_valid = tl.load(valid_ptr + rows, mask=rows < seq_len, other=0) != 0
    end = tl.minimum((block + 1) * BLOCK_M, seq_len) if CAUSAL else seq_len
    # A mask is looked at once: keys that count for sure need no look later.
    sure = valid_prefix(valid_ptr, end) if MASKED else end
    whole = (tl.minimum(sure, block * BLOCK_M) if CAUSAL else sure) // BLOCK_N * BLOCK_N

    BUFFER: tl.constexpr = 6 * ACROSS
    scratch_ptr += sequence.to(tl.int64) * seq_len * (BUFFERS * BUFFER)
    progress_ptr = flags_ptr + 16 + sequence * (FLAGS + 16)
    if PROJECT_FIRST:
        project(
            x, weights_ptr + first * LAYER_WEIGHTS, vectors_ptr + first * LAYER_VECTORS,
            tl.load(vectors_ptr + first * LAYER_VECTORS + UNSCALE),
            scratch_ptr + (first % BUFFERS) * seq_len * BUFFER, rows, seq_len,
            D, WIDTH, HEADS, HEAD_DIM, SPLIT_QKV, SPLIT_ATTENTION, QKV_CHUNK, STAGES,
        )  # fmt: skip
    for layer in tl.range(first, last, num_stages=1):
        weights = weights_ptr + layer * LAYER_WEIGHTS
        vectors = vectors_ptr + layer * LAYER_VECTORS
        if WAITS:
            wait_for_others(progress_ptr, block, blocks, layer - first + 1, CAUSAL, FLAGS)
        else:
            tl.debug_barrier()  # what a thread wrote, others of its block read
        heads_ptr = scratch_ptr + (layer % BUFFERS) * seq_len * BUFFER
        if TOGETHER == 1:
            attend(
                heads_ptr, valid_ptr, rows, sure, whole, end, seq_len, HEADS, HEAD_DIM, CAUSAL, MASKED,
                SPLIT_ATTENTION, SPLIT_OUT, BLOCK_N, STAGES,
            )  # fmt: skip
        else:
            attend_together(
                heads_ptr, valid_ptr, rows, sure, end, seq_len, HEADS, HEAD_DIM, CAUSAL, MASKED,
                SPLIT_ATTENTION, SPLIT_OUT, TOGETHER, BLOCK_N, STAGES,
            )  # fmt: skip
        tl.debug_barrier()
        attended = project_out(
            heads_ptr, weights + OUT, rows, seq_len, WIDTH, HEADS, HEAD_DIM, SPLIT_OUT, OUT_CHUNK, STAGES
        )
        x += attended * tl.load(vectors + UNSCALE + 1) + tl.load(vectors + OUT_BIAS + columns)[None, :]
        fed = feed_forward(
            x, weights + FFN_IN, weights + FFN_OUT, vectors + FFN_IN_BIAS, tl.load(vectors + UNSCALE + 2),
            D, WIDTH, HIDDEN, SPLIT_FFN, FFN_CHUNK, STAGES,
        )  # fmt: skip
        x += fed * tl.load(vectors + UNSCALE + 3) + tl.load(vectors + FFN_OUT_BIAS + columns)[None, :]
        if MASKED:
            x = tl.where(rows_valid[:, None], x, 0.0)
        if layer + 1 < LAYERS:
            project(
                x, weights + LAYER_WEIGHTS, vectors + LAYER_VECTORS,
                tl.load(vectors + LAYER_VECTORS + UNSCALE),
                scratch_ptr + ((layer + 1) % BUFFERS) * seq_len * BUFFER, rows, seq_len,
                D, WIDTH, HEADS, HEAD_DIM, SPLIT_QKV, SPLIT_ATTENTION, QKV_CHUNK, STAGES,
            )  # fmt: skip
    if last == LAYERS:
        final_ptr = vectors_ptr + LAYERS * LAYER_VECTORS
        x = normalised(x, columns, D, WIDTH) * tl.load(final_ptr + columns)[None, :]
        x += tl.load(final_ptr + WIDTH + columns)[None, :]
        if MASKED:
            x = tl.where(rows_valid[:, None], x, 0.0)
    if WAITS:
        leave(progress_ptr, blocks, FLAGS)
    tl.store(y_ptr + cells, x, mask=cells_ok)
