"""Attention in CUDA C++ for cards that Triton has no tensor-core products on: sm_75 and later.

    o_i = sum_j 2^(s_ij - m_i) v_j / sum_j 2^(s_ij - m_i),   s_ij = q_i · k_j,   m_i = max_j s_ij

as the op `attention` computes it: no score matrix, no copied heads, blocks beyond the diagonal never met, any
mask of keys, o_i = 0 where none counts. Queries may be a part of a sequence: keys and values are whole.

Halves: low-order products are added up apart from the high ones, and every step's sum is added to the result
in float32, outside the tensor cores, which truncate.

Sources: as of `attention`; `cuda_attention_text`.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from .attention import Heads
from .cuda_attention_text import TEXT
from .cuda_driver import Load
from .cuda_tiles_text import HALVES, WARP
from .launching import current_stream
from .operand import Operand
from .sizes import blocks

SIGNATURE = "PPPPPiiiiiiqqqqqqq"
MOST_SHARED = 64 * 1024  # bytes of a block on sm_75
LONG = 1024  # from this many queries on a block takes more of them, to read keys less often


class Span(NamedTuple):
    """Of each sequence: queries at hand, keys in all, and the place of the first query among the keys."""

    queries: int
    keys: int
    first: int = 0


class Walk(NamedTuple):
    """How attention is cut: queries of a block, keys of a step; `hold`, `ahead`: see the text."""

    block_m: int
    block_n: int
    hold: bool
    ahead: bool


def walk_of(head_dim: int, split: bool, queries: int) -> Walk:
    """The cut: what fits into 255 registers of a thread and 64 KB of a block."""
    if head_dim > 128:
        return Walk(32 if split else 64, 16, False, False)
    if head_dim > 64:
        return Walk(64, 32, False, not split)
    if head_dim == 64 and split:
        return Walk(64, 32, True, True)
    return Walk(128 if queries >= LONG and head_dim >= 32 and not split else 64, 64, True, True)


def shared_bytes(head_dim: int, split: bool, walk: Walk) -> int:
    """Bytes of shared memory of a block: keys, values, and queries where registers do not hold them."""
    rows = 2 * walk.block_n + (0 if walk.hold else walk.block_m)
    return rows * head_dim * 2 * (2 if split else 1)


def defines(head_dim: int, split: bool, walk: Walk) -> dict[str, int]:
    """What the text leaves to be defined."""
    return {
        "HEAD_DIM": head_dim,
        "SPLIT": int(split),
        "BLOCK_M": walk.block_m,
        "BLOCK_N": walk.block_n,
        "HOLD": int(walk.hold),
        "AHEAD": int(walk.ahead),
    }


def attention(
    load: Load,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    heads: Heads,
    span: Span,
    valid: Tensor | None,
    causal: bool,
    out: Operand,
    walk: Walk | None = None,
) -> Operand:
    """Write the attention of q [1 or 2,B·queries,H·P] over k, v [1 or 2,B·keys,H·P] to out [B·queries,H·P].

    The three are halves, or one, and may be columns of one product; k and v have the same strides. valid
    [B,keys], contiguous, is True where a key counts.
    """
    parts, tokens, across = q.shape
    if (across, k.shape, v.stride()) != (heads.number * heads.padded, v.shape, k.stride()):
        raise ValueError(f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)} are not {heads}")
    cut = walk or walk_of(heads.padded, parts == 2, span.queries)
    start = load(
        WARP + HALVES + TEXT,
        "attention",
        SIGNATURE,
        shared_bytes(heads.padded, parts == 2, cut),
        defines(heads.padded, parts == 2, cut),
    )
    walks = blocks(span.queries, cut.block_m)
    start(
        tokens // span.queries * heads.number * walks, cut.block_m * 2, current_stream(q),
        q, k, v, valid, out.high,
        heads.number, span.queries, span.keys, span.first, walks, causal,
        q.stride(1), q.stride(0), k.stride(1), k.stride(0),
        out.stride, out.lo_offset if out.split else 0, out.width if out.tripled else 0,
    )  # fmt: skip
    return out
