"""Attention over q, k and v as one product wrote them: no score matrix, no copied heads.

    o_i = sum_j 2^(s_ij - m_i) v_j / sum_j 2^(s_ij - m_i),   s_ij = q_i · k_j,   m_i = max_j s_ij

over the keys j that count and, when causal, j <= i; o_i = 0 where there is none. The packed weights of q hold
the scale hd^-0.5 · log2(e) already. A program takes a block of queries of one head and walks the keys with a
running maximum and sum in float32; blocks beyond the diagonal are never met, those below it compare nothing,
and the longest walks start first. Halves: both products are three, low-order terms first, and the shares
2^(s-m) are split as they come.

Sources: running softmax: Milakov and Gimelshein, arXiv 1805.02867; by blocks: Dao et al., arXiv 2205.14135
and 2307.08691; split products: `model.precision`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .operand import Operand
from .sizes import blocks, is_hopper

MOST_HEAD_DIM = 256


class Heads(NamedTuple):
    """How the columns of q, k and v fall into heads; `padded` columns a head, a power of two from 16 on."""

    number: int
    padded: int


class Walk(NamedTuple):
    """How attention is cut: queries of a block, keys of a step, warps, stages: knobs that are measured."""

    block_m: int = 64
    block_n: int = 64
    warps: int = 4
    stages: int = 2


def reference(q: Tensor, k: Tensor, v: Tensor, valid: Tensor | None, causal: bool) -> Tensor:
    """The same in plain torch of q, k, v [B,H,S,P]; valid [B,S] is True where a key counts."""
    scores = q @ k.mT * torch.log(torch.tensor(2.0, dtype=q.dtype, device=q.device))
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
    seen = (seen.tril() if causal else seen)[None, None]
    if valid is not None:
        seen = seen & valid[:, None, None, :]
    return torch.softmax(scores.masked_fill(~seen, float("-inf")), -1).nan_to_num(0.0) @ v


def attention(
    qkv: Operand,
    heads: Heads,
    seq_len: int,
    valid: Tensor | None,
    causal: bool,
    split: bool,
    walk: Walk | None = None,
    tripled: bool = False,
) -> Operand:
    """Attend over qkv [B·S, 3·H·P], q then k then v, as an operand [B·S, H·P] in halves where `split`.

    valid [B,S], contiguous, is True where a key counts. qkv is in halves exactly when its products are split.
    """
    from .attention_kernel import attention_kernel

    across = heads.number * heads.padded
    if qkv.width != 3 * across or qkv.tokens % seq_len or qkv.tripled or heads.padded > MOST_HEAD_DIM:
        raise ValueError(f"{qkv} is no q, k and v of {heads} over {seq_len} tokens")
    out = Operand.empty(qkv.tokens, across, split, tripled, qkv.memory.device)
    cut = walk or default_walk(seq_len, heads.padded, qkv.split, qkv.memory.device)
    walks = blocks(seq_len, cut.block_m)
    attention_kernel[(qkv.tokens // seq_len * heads.number * walks,)](
        qkv.memory,
        out.memory,
        qkv.memory if valid is None else valid,
        seq_len,
        walks,
        qkv.lo_offset,
        out.stride,
        out.lo_offset,
        HEADS=heads.number,
        HEAD_DIM=heads.padded,
        CAUSAL=causal,
        MASKED=valid is not None,
        SPLIT=qkv.split,
        OUT_SPLIT=out.split,
        OUT_TRIPLED=out.tripled,
        BLOCK_M=cut.block_m,
        BLOCK_N=cut.block_n,
        STAGES=cut.stages,
        num_warps=cut.warps,
    )
    return out


def default_walk(seq_len: int, head_dim: int, split: bool, device: torch.device) -> Walk:
    """The cut where none was measured: what fits into registers, and large blocks for long walks."""
    hopper = is_hopper(device)
    if head_dim > 128 and split:
        return Walk(128, 16, 8) if hopper else Walk(32, 16)
    if head_dim > 128:
        return Walk(64, 64, 8)
    if split and head_dim > 64:
        return Walk(128, 32, 8) if hopper else Walk(32, 32)
    if seq_len < 1024 or not hopper:
        return Walk(64, 32 if split else 64)
    return Walk(128, 64, 8, 3)
