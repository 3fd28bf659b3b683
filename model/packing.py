"""The weights as the tensor-core ops read them: float16 halves, folded, padded, made once for loaded weights.

What is folded into the weights, in float64, so that no op computes it:
- LayerNorm's g and c go into the product that follows: W·(g∘n + c) + b = (W∘g)·n + (W·c + b), n normalised.
- The softmax's scale goes into q's weights, times log2(e): the ops take powers of two.
- k's bias is dropped: q·b_k is one number for all keys of a query, and the softmax does not see it.
- v's bias goes through the output projection into its bias, since the shares of a query add up to 1. A query
  with no key that counts is padding, and its row is zeroed.

Halves: W·2^e = hi + lo, hi = float16(W·2^e), lo = float16(W·2^e - hi). The low half is not scaled further:
with e such that the largest weight lies in [2^7, 2^8), it leaves at most 2^-25, which is 2^-32 of the
largest, and all three products add up in one accumulator, with no second one and no scaling between.
Activations are split as they are: their magnitude is 1, and 2^-25 of that is what float32 holds.

Bound: ‖n‖₂ ≤ √D, so |q_j| ≤ √D·‖W_j‖₂ + |b_j|, and so for k, v and the FFN's hidden values (|gelu(t)| ≤ |t|);
an attention result is an average of v. Where such a bound exceeds float16's 65504, `Packed.refusal` says so.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .weights import Layer, Pair, Weights

LARGEST_FLOAT16 = 65504.0
LEAST_HEAD_DIM = 16  # the depth of one tensor-core instruction
MAGNITUDE = 8  # the largest weight of a packed matrix lies in [2^7, 2^8)
MOST_SCALING = 40  # an op may scale the residual by the same power of two: 2^40 leaves it room up to 1e26


_ADDRESS: Callable[[Tensor], int] = Tensor.data_ptr
_VERSION: Callable[[Tensor], int] = operator.attrgetter("_version")


class Halves(NamedTuple):
    """One product's weights in every layer [L,K,N], K the side summed over: (hi + lo)[l] · unscale[l]."""

    hi: Tensor
    lo: Tensor
    unscale: tuple[float, ...]


@dataclass(frozen=True)
class Packed:
    """Every tensor of the model, folded: D and F padded to Dp and Fp, a head's width to P, all with zeros.

    `qkv` [L,Dp,3·H·P] holds q, then k, then v, head by head; only q has a bias. Biases are float32 [L,N].
    `bounds`: the largest magnitude that each float16 operand can take in any layer, whatever the input.
    `refusal`: why float16 operands cannot serve these weights, "" where they can.
    """

    qkv: Halves
    q_bias: Tensor
    out: Halves
    out_bias: Tensor
    ffn_in: Halves
    ffn_in_bias: Tensor
    ffn_out: Halves
    ffn_out_bias: Tensor
    final_norm: Pair
    heads: int
    head_dim: int
    bounds: dict[str, float]

    @property
    def refusal(self) -> str:
        """Which operand may not fit into float16; NaN and infinite weights are told this way, too."""
        for name, bound in self.bounds.items():
            if not bound <= LARGEST_FLOAT16:
                return f"{name} may reach {bound:.6g}, and float16 ends at {LARGEST_FLOAT16:.0f}"
        return ""


class Folded(NamedTuple):
    """One layer in float64, not yet padded nor split: weights [K,N], biases [N]; heads stand apart."""

    qkv: Tensor  # [D,3,H,D/H]
    q_bias: Tensor  # [H,D/H]
    out: Tensor  # [H,D/H,D]
    out_bias: Tensor
    ffn_in: Tensor
    ffn_in_bias: Tensor
    ffn_out: Tensor
    ffn_out_bias: Tensor


def padded_head_dim(head_dim: int) -> int:
    """The width that a head takes in the packed weights: a power of two, 16 at least."""
    return max(LEAST_HEAD_DIM, 1 << (head_dim - 1).bit_length())


def pack(weights: Weights, width: int | None = None, hidden: int | None = None) -> Packed:
    """Fold, pad and split all weights, on their device; waits for it once.

    width, hidden: what D and F are padded to; by default the next multiple of 16.
    """
    config, tensors = weights.config, weights.tensors(fused=False)
    width = width or -(-config.d_model // 16) * 16
    hidden = hidden or -(-config.ffn_dim // 16) * 16
    heads, head_dim = config.num_heads, padded_head_dim(config.d_model // config.num_heads)
    across = heads * head_dim
    with torch.inference_mode(False), torch.no_grad():
        folded = [fold(layer, heads) for layer in tensors.layers]
        qkv = _stack([f.qkv for f in folded], width, 3, heads, head_dim)
        out = _stack([f.out for f in folded], heads, head_dim, width)
        return Packed(
            qkv=split_scaled(qkv.flatten(2)),
            q_bias=_stack([f.q_bias for f in folded], heads, head_dim).flatten(1).float(),
            out=split_scaled(out.reshape(-1, across, width)),
            out_bias=_stack([f.out_bias for f in folded], width).float(),
            ffn_in=split_scaled(_stack([f.ffn_in for f in folded], width, hidden)),
            ffn_in_bias=_stack([f.ffn_in_bias for f in folded], hidden).float(),
            ffn_out=split_scaled(_stack([f.ffn_out for f in folded], hidden, width)),
            ffn_out_bias=_stack([f.ffn_out_bias for f in folded], width).float(),
            final_norm=_pad_pair(tensors.final_norm, width),
            heads=heads,
            head_dim=head_dim,
            bounds=_bounds(folded, config.d_model),
        )


def fold(layer: Layer, heads: int) -> Folded:
    """One layer's weights in float64 with everything folded in that the module's head names."""
    (wq, bq), (wk, _), (wv, bv) = (_after_norm(pair, layer.norm1) for pair in layer.qkv)
    depth, width = wq.shape
    head_dim = width // heads
    scale = head_dim**-0.5 * math.log2(math.e)
    out, out_bias = _transposed(layer.out)
    ffn_in, ffn_in_bias = _after_norm(layer.ffn_in, layer.norm2)
    ffn_out, ffn_out_bias = _transposed(layer.ffn_out)
    return Folded(
        torch.stack([wq * scale, wk, wv], 1).view(depth, 3, heads, head_dim),
        (bq * scale).view(heads, head_dim),
        out.view(heads, head_dim, width),
        out_bias + bv @ out,
        ffn_in,
        ffn_in_bias,
        ffn_out,
        ffn_out_bias,
    )


def split(x: Tensor) -> tuple[Tensor, Tensor]:
    """The two float16 halves of x: hi + lo is x within 2^-22 of it, or 2^-25 where that is more."""
    hi = x.half()
    return hi, (x - hi.to(x.dtype)).half()


def split_scaled(stacked: Tensor) -> Halves:
    """The halves of float64 weights [L,K,N], each layer scaled by a power of two of its own."""
    exponents = [_exponent(largest) for largest in stacked.abs().amax((1, 2)).tolist()]
    scales = torch.tensor([2.0**e for e in exponents], dtype=stacked.dtype, device=stacked.device)
    hi, lo = split(stacked * scales[:, None, None])
    return Halves(hi, lo, tuple(2.0**-e for e in exponents))


class Packing:
    """Packs a model's weights when they are first needed, and again when they have changed.

    A change shows by a parameter's address or version counter: loading, moving, casting, replacing,
    optimising. A write through `.data`, which moves neither, is not seen.
    """

    def __init__(self, make: Callable[[Weights], Packed] = pack) -> None:
        self._make = make
        self._owner: Weights | None = None
        self._slots: list[Mapping[str, Tensor | None]] = []
        self._seen: tuple[list[int], list[int]] | None = None
        self._kept: list[Tensor] = []
        self._packed: Packed | None = None

    def of(self, weights: Weights) -> Packed:
        """The packed weights, the same object as long as nothing has changed."""
        if self._owner is not weights:
            self._owner, self._seen = weights, None
            self._slots = [module._parameters for module in weights.modules() if module._parameters]
        tensors = [tensor for slot in self._slots for tensor in slot.values() if tensor is not None]
        seen = _state(tensors)
        if self._packed is None or seen is None or seen != self._seen:
            self._packed, self._seen = self._make(weights), seen
            # While these live nothing else can have an address that was seen.
            self._kept = [tensor.detach() for tensor in tensors]
        return self._packed


def _state(tensors: list[Tensor]) -> tuple[list[int], list[int]] | None:
    """Addresses and versions; None where a tensor made in inference mode counts no versions."""
    try:
        return list(map(_ADDRESS, tensors)), list(map(_VERSION, tensors))
    except RuntimeError:
        return None


def _transposed(pair: Pair) -> tuple[Tensor, Tensor]:
    weight, bias = pair
    return weight.double().T, bias.double()


def _after_norm(pair: Pair, norm: Pair) -> tuple[Tensor, Tensor]:
    weight, bias = _transposed(pair)
    gamma, beta = norm[0].double(), norm[1].double()
    return gamma[:, None] * weight, bias + beta @ weight


def _stack(parts: list[Tensor], *sides: int) -> Tensor:
    """The layers' tensors as one [L,*sides], what is beyond a tensor's own sides zero."""
    whole = parts[0].new_zeros(len(parts), *sides)
    for index, part in enumerate(parts):
        whole[index][tuple(slice(side) for side in part.shape)] = part
    return whole


def _pad_pair(pair: Pair, width: int) -> Pair:
    weight, bias = (_stack([part.double()], width)[0].float() for part in pair)
    return weight, bias


def _exponent(largest: float) -> int:
    if not 0.0 < largest < math.inf:
        return 0
    return min(max(MAGNITUDE - math.frexp(largest)[1], -MOST_SCALING), MOST_SCALING)


def _bounds(folded: list[Folded], d_model: int) -> dict[str, float]:
    radius = math.sqrt(d_model)
    tops = []
    for f in folded:
        q, k, v = (f.qkv[:, part].norm(dim=0) * radius for part in range(3))
        hidden = f.ffn_in.norm(dim=0) * radius + f.ffn_in_bias.abs()
        tops.append(torch.stack([part.max() for part in (q + f.q_bias.abs(), k, v, hidden)]))
    largest: list[float] = torch.stack(tops).amax(0).tolist()
    names = ("q", "k", "v", "the feed-forward's hidden value")
    return {"LayerNorm's result": radius, **dict(zip(names, largest, strict=True))}
