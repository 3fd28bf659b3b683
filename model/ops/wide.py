"""The whole transformer for any width, seven launches a layer.

    x += out(attention(qkv(LN(x))));  x += ffn_out(gelu(ffn_in(LN(x))))   for each layer;  y = LN(x)

Bias, GELU and residual are fused into the products; q, k and v are read where their one product wrote them;
the residual stream is float32. Masks are looked at in the kernels: keys that do not count in attention, rows
in the last LayerNorm. A row that does not count is computed all the same and reaches no other.

Sources: as of the ops it is made of: `layernorm`, `matmul` or `library`, `attention`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ..packing import Halves, Packed
from ..padding import Front
from ..precision import Operands, Precision
from . import layernorm, library, matmul
from .attention import MOST_HEAD_DIM, Heads, Walk, attention
from .matmul import Tiles, Weight
from .operand import Operand
from .stack import reference as reference

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


class Cut(NamedTuple):
    """Who computes the products, `triton` or `cublas`, and attention, `triton` or `torch`, and their cuts.

    torch's attention takes whole float16 operands, and no mask beside causality: else Triton attends.
    """

    products: str = "triton"
    attention: str = "triton"
    tiles: Tiles | None = None
    walk: Walk | None = None


class Layer(NamedTuple):
    """One layer's weights, as the products take them, each with its bias."""

    qkv: tuple[Weight, Tensor]
    out: tuple[Weight, Tensor]
    ffn_in: tuple[Weight, Tensor]
    ffn_out: tuple[Weight, Tensor]


def refusal(d_model: int, heads: int, dtype: torch.dtype) -> str:
    """Why the op cannot serve a model of these widths, "" when it can; weights: `Packed.refusal`."""
    if d_model > layernorm.MOST_WIDTH:
        return f"D = {d_model} is more than {layernorm.MOST_WIDTH}"
    if d_model // heads > MOST_HEAD_DIM:
        return f"heads of {d_model // heads} are wider than {MOST_HEAD_DIM}"
    return "" if dtype in DTYPES else f"{dtype} is not among {', '.join(map(str, DTYPES))}"


class Wide:
    """The op over one model's packed weights."""

    def __init__(
        self, packed: Packed, d_model: int, causal: bool, precision: Precision, cut: Cut | None = None
    ) -> None:
        self._packed, self._d_model, self._causal = packed, d_model, causal
        self._precision, self._cut = precision, cut or Cut()
        self._tripled = self._cut.products == "cublas"
        self._to_operand = library.to_operand if self._tripled else matmul.to_operand
        self._to_residual = library.to_residual if self._tripled else matmul.to_residual
        self._heads = Heads(packed.heads, packed.head_dim)
        self._layers = [
            Layer(*parts)
            for parts in zip(
                self._weights(packed.qkv, precision.qkv, packed.q_bias),
                self._weights(packed.out, precision.out, packed.out_bias),
                self._weights(packed.ffn_in, precision.ffn, packed.ffn_in_bias),
                self._weights(packed.ffn_out, precision.ffn, packed.ffn_out_bias),
                strict=True,
            )
        ]

    def _weights(self, halves: Halves, operands: Operands, biases: Tensor) -> Iterator[tuple[Weight, Tensor]]:
        """Each layer's weight as the products take it, and its bias."""
        for hi, lo, unscale, bias in zip(*halves, biases, strict=True):
            weight = Weight(torch.stack([hi, lo]) if operands == "split" else hi[None], unscale)
            yield library.tripled(weight) if self._tripled else weight, bias

    def __call__(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        """Map x [B,S,D] to a fresh [B,S,D], zeros where the boolean valid [B,S] is False."""
        if valid is not None and self._torch_attends(valid):
            front = Front.of(valid)
            return front.unpack(self._stack(front.pack(x), front.valid))
        return self._stack(x.contiguous(), None if valid is None else valid.contiguous())

    def _torch_attends(self, valid: Tensor | None) -> bool:
        """Whether torch's attention serves: it takes no halves in pairs, and no mask beside causality."""
        single = self._cut.attention == "torch" and self._precision.attention == "half"
        return single and (self._causal or valid is None)

    def _stack(self, x: Tensor, valid: Tensor | None) -> Tensor:
        batch, seq_len, width = x.shape
        source = x.view(-1, width)
        stream = torch.empty(source.shape, dtype=torch.float32, device=x.device)
        for layer in self._layers:
            self._add(self._attended(source, layer, seq_len, valid), layer.out, source, stream)
            self._add(self._hidden(stream, layer), layer.ffn_out, stream, stream)
            source = stream
        rows = None if valid is None else valid.view(-1)
        return layernorm.final(stream, *self._packed.final_norm, rows, x.dtype).view(batch, seq_len, width)

    def _attended(self, source: Tensor, layer: Layer, seq_len: int, valid: Tensor | None) -> Operand:
        """attention(qkv(LN(source)))."""
        pairs = self._precision.attention == "split"
        normed = self._normed(source, self._precision.qkv)
        qkv = self._to_operand(normed, *layer.qkv, False, pairs, False, self._cut.tiles)
        del normed
        if self._torch_attends(valid):
            return self._by_torch(qkv, seq_len)
        split = self._precision.out == "split"
        return attention(qkv, self._heads, seq_len, valid, self._causal, split, self._cut.walk, self._tripled)

    def _hidden(self, stream: Tensor, layer: Layer) -> Operand:
        """gelu(ffn_in(LN(stream)))."""
        split = self._precision.ffn == "split"
        normed = self._normed(stream, self._precision.ffn)
        return self._to_operand(normed, *layer.ffn_in, True, split, self._tripled, self._cut.tiles)

    def _normed(self, source: Tensor, operands: Operands) -> Operand:
        depth = self._packed.ffn_out_bias.shape[1]
        return layernorm.operand(source, depth, operands == "split", self._tripled)

    def _add(self, a: Operand, layer: tuple[Weight, Tensor], source: Tensor, stream: Tensor) -> None:
        """stream = source + a @ weight + bias."""
        self._to_residual(a, *layer, source, stream, self._cut.tiles)

    def _by_torch(self, qkv: Operand, seq_len: int) -> Operand:
        """Causal attention of whole float16 q, k and v; q holds log2(e) for powers of two."""
        heads, padded = self._heads
        q, k, v = qkv.memory[0].view(-1, seq_len, 3, heads, padded).permute(2, 0, 3, 1, 4)
        merged = functional.scaled_dot_product_attention(q, k, v, is_causal=self._causal, scale=math.log(2.0))
        rows = merged.transpose(1, 2).reshape(qkv.tokens, heads * padded)
        # A single half: what the product that follows takes of its weight is the high half, too.
        return Operand(rows[None], qkv.tokens, heads * padded, False, False)
