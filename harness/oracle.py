"""The baseline's arithmetic with its query axis in blocks: a reference where no S x S score can exist.

Each operation is the baseline's, in its order and its dtype, float16's roundings included. A block of queries
sees its keys only: under causality those up to its last row, which leaves out half of the work; what is left
out has a weight of exactly zero. So it differs from the baseline only in the order in which sums are taken.

In float64 no key is left out: the baseline's softmax is in float32 even then, and a shorter row would round
its sum differently.

Checking a part of the output means checking whole sequences. Sequences do not see each other, whereas a
single row of the last layer needs the keys and values of all rows before it, so that all layers but the last
must be computed for all rows anyway.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor
from torch.nn import functional

SCORES = 1 << 24  # elements of one block's scores; a block takes some 12 bytes for each
TILE = 128  # rows that a GPU's matrix products take at once; whole tiles waste nothing
Weights = Mapping[str, Tensor]


def walk(
    weights: Weights,
    x: Tensor,
    valid_token_mask: Tensor | None,
    heads: int,
    causal: bool,
    scores: int = SCORES,
) -> Tensor:
    """Map x [B,S,D] to the baseline's output [B,S,D]; `weights` is the baseline's state dict.

    `scores` bounds the elements [B,H,rows,S] of the scores that exist at once; one row always does.
    """
    mask = None if valid_token_mask is None or bool(valid_token_mask.all()) else valid_token_mask
    layers = sum(name.endswith(".norm1.weight") for name in weights)
    for number in range(layers):
        layer = _under(weights, f"layers.{number}.")
        branch = _attend(_norm(x, layer, "norm1"), _under(layer, "attention."), mask, heads, causal, scores)
        x = x + _zero_padding(branch, mask)
        hidden = functional.gelu(_linear(_norm(x, layer, "norm2"), layer, "ffn_in"))
        x = _zero_padding(x + _linear(hidden, layer, "ffn_out"), mask)
    return _zero_padding(_norm(x, weights, "final_norm"), mask)


def _attend(x: Tensor, part: Weights, mask: Tensor | None, heads: int, causal: bool, most: int) -> Tensor:
    batch, seq_len, _ = x.shape
    q, k, v = (_split(_linear(x, part, name), heads) for name in ("q_proj", "k_proj", "v_proj"))
    merged = torch.empty_like(x)
    rows = max(1, most // (batch * heads * seq_len))
    rows -= rows % TILE if rows > TILE else 0
    for start in range(0, seq_len, rows):
        stop = min(start + rows, seq_len)
        seen = stop if causal and x.dtype != torch.float64 else seq_len
        scores = q[:, :, start:stop] @ k[:, :, :seen].transpose(-2, -1)
        scores.mul_(q.shape[-1] ** -0.5)
        if causal:
            future = torch.ones(stop - start, seen - start, dtype=torch.bool, device=x.device).triu_(1)
            scores[..., start:].masked_fill_(future, float("-inf"))
        if mask is not None:
            scores.masked_fill_(~mask[:, None, None, :seen], float("-inf"))
        shares = torch.softmax(scores, dim=-1, dtype=torch.float32).to(x.dtype)
        del scores
        merged[:, start:stop] = (shares @ v[:, :, :seen]).transpose(1, 2).flatten(2)
    return _linear(merged, part, "out_proj")


def _under(weights: Weights, prefix: str) -> Weights:
    return {name.removeprefix(prefix): each for name, each in weights.items() if name.startswith(prefix)}


def _split(x: Tensor, heads: int) -> Tensor:
    """[B,S,D] to [B,H,S,D/H], contiguous."""
    batch, seq_len, width = x.shape
    return x.view(batch, seq_len, heads, width // heads).transpose(1, 2).contiguous()


def _linear(x: Tensor, weights: Weights, name: str) -> Tensor:
    return functional.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])


def _norm(x: Tensor, weights: Weights, name: str) -> Tensor:
    return functional.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"])


def _zero_padding(x: Tensor, mask: Tensor | None) -> Tensor:
    return x if mask is None else x.masked_fill(~mask[..., None], 0.0)


@contextlib.contextmanager
def full_float32() -> Iterator[None]:
    """Compute float32 products in float32 meanwhile: no TF32 on a GPU, no bfloat16 on a CPU."""
    precision, tf32 = torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.allow_tf32
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        torch.backends.cuda.matmul.allow_tf32 = tf32
