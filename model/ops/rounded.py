"""What the op `stack` computes, with its roundings, in plain torch: what a precision costs, on any machine.

Each operand is rounded or split as `model.precision` says; products of halves are exact, added up in float32.
Left out: tensor cores truncate their sums, and attention by blocks rounds under a running maximum, where
here it is the final one.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ..packing import Halves, Packed, split
from ..precision import Operands, Precision

Parts = tuple[Tensor, Tensor]


def rounded(x: Tensor, packed: Packed, d_model: int, causal: bool, precision: Precision) -> Tensor:
    """The model over x [B,S,D] in float32; every token counts."""
    width = packed.out_bias.shape[1]
    x = functional.pad(x, (0, width - d_model))
    for layer in range(len(packed.q_bias)):
        n = _normalised(x, d_model)
        qkv = _linear(n, packed.qkv, layer, precision.qkv)
        q, k, v = qkv.view(*x.shape[:2], 3, packed.heads, -1).permute(2, 0, 3, 1, 4)
        q = q + packed.q_bias[layer].view(packed.heads, 1, -1)
        merged = _attention(q, k, v, causal, precision.attention).transpose(1, 2).flatten(2)
        x = x + _linear(merged, packed.out, layer, precision.out) + packed.out_bias[layer]
        hidden = _linear(_normalised(x, d_model), packed.ffn_in, layer, precision.ffn)
        hidden = functional.gelu(hidden + packed.ffn_in_bias[layer])
        x = x + _linear(hidden, packed.ffn_out, layer, precision.ffn) + packed.ffn_out_bias[layer]
    weight, bias = packed.final_norm
    return (_normalised(x, d_model) * weight + bias)[..., :d_model]


def _normalised(x: Tensor, d_model: int) -> Tensor:
    n = functional.layer_norm(x[..., :d_model], (d_model,))
    return functional.pad(n, (0, x.shape[-1] - d_model))


def _attention(q: Tensor, k: Tensor, v: Tensor, causal: bool, operands: Operands) -> Tensor:
    """[B,H,S,P] of such; the softmax's scale and its power of two are in q."""
    scores = _product(_parts(q, operands), _parts(k.mT, operands))
    if causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
    shares = torch.exp2(scores - scores.amax(-1, keepdim=True))
    return _product(_parts(shares, operands), _parts(v, operands)) / shares.sum(-1, keepdim=True)


def _linear(x: Tensor, weights: Halves, layer: int, operands: Operands) -> Tensor:
    hi, lo = weights.hi[layer].float(), weights.lo[layer].float()
    kept = (hi, lo if operands == "split" else torch.zeros_like(lo))
    return _product(_parts(x, operands), kept) * weights.unscale[layer]


def _parts(x: Tensor, operands: Operands) -> Parts:
    """Both halves as float32, the low one zero where operands are not split."""
    hi, lo = split(x)
    return hi.float(), lo.float() if operands == "split" else torch.zeros_like(x)


def _product(a: Parts, b: Parts) -> Tensor:
    return (a[1] @ b[0] + a[0] @ b[1]) + a[0] @ b[0]
