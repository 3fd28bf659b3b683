"""The whole transformer as `wide` computes it, by cuBLAS and CUDA C++: for cards from capability 7.5 on.

    x += out(attention(qkv(LN(x))));  x += ffn_out(gelu(ffn_in(LN(x))))   for each layer;  y = LN(x)

Split products are one product of cuBLAS each, K tripled, low-order terms first, the bias outside of it. A
sequence may run in parts: all its keys and values first, then everything else part by part, so that besides
input, output and the float32 residual only keys and values are held for all tokens.

Sources: as of the ops it is made of: `cuda_rows`, `cuda_attention`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ..packing import Halves, Packed
from ..precision import Operands, Precision
from . import library
from .attention import MOST_HEAD_DIM, Heads
from .cuda_attention import Span, attention
from .cuda_driver import Load
from .cuda_rows import FORMS, Rows
from .matmul import Weight
from .operand import Operand
from .stack import reference as reference


class Layer(NamedTuple):
    """One layer's weights, tripled where they are halves, each with its bias."""

    qkv: tuple[Weight, Tensor]
    out: tuple[Weight, Tensor]
    ffn_in: tuple[Weight, Tensor]
    ffn_out: tuple[Weight, Tensor]


def refusal(d_model: int, heads: int, dtype: torch.dtype) -> str:
    """Why the op cannot serve a model of these widths, "" when it can; weights: `Packed.refusal`."""
    if d_model // heads > MOST_HEAD_DIM:
        return f"heads of {d_model // heads} are wider than {MOST_HEAD_DIM}"
    return "" if dtype in FORMS else f"{dtype} is not among {', '.join(map(str, FORMS))}"


class CudaWide:
    """The op over one model's packed weights."""

    def __init__(self, packed: Packed, d_model: int, causal: bool, precision: Precision, load: Load) -> None:
        self._packed, self._d_model, self._causal = packed, d_model, causal
        self._precision, self._load, self._rows = precision, load, Rows(load)
        self._heads = Heads(packed.heads, packed.head_dim)
        self._across = packed.heads * packed.head_dim
        self._layers = [
            Layer(*parts)
            for parts in zip(
                _weights(packed.qkv, precision.qkv, packed.q_bias),
                _weights(packed.out, precision.out, packed.out_bias),
                _weights(packed.ffn_in, precision.ffn, packed.ffn_in_bias),
                _weights(packed.ffn_out, precision.ffn, packed.ffn_out_bias),
                strict=True,
            )
        ]

    def __call__(self, x: Tensor, valid: Tensor | None = None, tokens: int | None = None) -> Tensor:
        """Map x [B,S,D] to a fresh [B,S,D], zeros where the boolean valid [B,S] is False.

        tokens: so many of a sequence at once, for B = 1; None is all.
        """
        batch, seq_len, width = x.shape
        if tokens and tokens < seq_len and batch > 1:
            raise ValueError(f"{batch} sequences cannot run in parts of {tokens} tokens at once")
        counts = None if valid is None else valid.contiguous()
        source = x.contiguous().view(-1, width)
        stream = torch.empty(source.shape, dtype=torch.float32, device=x.device)
        for layer in self._layers:
            if tokens and tokens < seq_len:
                self._in_parts(layer, source, stream, counts, tokens)
            else:
                self._at_once(layer, source, stream, counts, seq_len)
            source = stream
        y = torch.empty(source.shape, dtype=x.dtype, device=x.device)
        rows = None if counts is None else counts.view(-1)
        return self._rows.final(stream, *self._packed.final_norm, rows, y).view(batch, seq_len, width)

    def _at_once(
        self, layer: Layer, source: Tensor, stream: Tensor, valid: Tensor | None, seq_len: int
    ) -> None:
        qkv = self._operand(len(source), 3 * self._across)
        self._project(source, layer.qkv, slice(None), qkv)
        q, k, v = (qkv.memory[..., self._columns(i)] for i in range(3))
        attended = self._attended(q, k, v, Span(seq_len, seq_len), valid)
        del qkv, q, k, v
        self._rows.to_residual(attended.matrix, *layer.out, source, stream)
        del attended
        self._feed(layer, stream)

    def _in_parts(
        self, layer: Layer, source: Tensor, stream: Tensor, valid: Tensor | None, tokens: int
    ) -> None:
        spans = [slice(start, start + tokens) for start in range(0, len(source), tokens)]
        kv = self._operand(len(source), 2 * self._across)
        for span in spans:
            part = source[span]
            # A part of an operand: its halves are as far apart as the whole's.
            into = Operand(kv.memory[:, span], len(part), kv.width, kv.split, False)
            self._project(part, layer.qkv, slice(self._across, None), into)
        k, v = (kv.memory[..., self._columns(i)] for i in range(2))
        for span in spans:
            part = source[span]
            q = self._operand(len(part), self._across)
            self._project(part, layer.qkv, slice(self._across), q)
            attended = self._attended(q.memory, k, v, Span(len(part), len(source), span.start), valid)
            del q
            self._rows.to_residual(attended.matrix, *layer.out, part, stream[span])
            del attended
            self._feed(layer, stream[span])

    def _columns(self, index: int) -> slice:
        return slice(index * self._across, (index + 1) * self._across)

    def _operand(self, tokens: int, width: int) -> Operand:
        """Memory for what attention reads."""
        split = self._precision.attention == "split"
        return Operand.empty(tokens, width, split, False, self._packed.q_bias.device)

    def _project(self, source: Tensor, qkv: tuple[Weight, Tensor], columns: slice, out: Operand) -> None:
        """Some columns of qkv(LN(source)); only q, which stands first, has a bias."""
        weight, bias = qkv
        some = Weight(weight.halves[:, :, columns], weight.unscale)
        bias = bias if not columns.start else bias[:0]
        self._rows.to_operand(self._normed(source, self._precision.qkv), some, bias, False, out)

    def _normed(self, source: Tensor, operands: Operands) -> Tensor:
        depth = self._packed.ffn_out_bias.shape[1]
        out = Operand.empty(len(source), depth, operands == "split", True, source.device)
        return self._rows.normalise(source, out).matrix

    def _attended(self, q: Tensor, k: Tensor, v: Tensor, span: Span, valid: Tensor | None) -> Operand:
        split = self._precision.out == "split"
        out = Operand.empty(q.shape[1], self._across, split, True, q.device)
        return attention(self._load, q, k, v, self._heads, span, valid, self._causal, out)

    def _feed(self, layer: Layer, stream: Tensor) -> None:
        """stream += ffn_out(gelu(ffn_in(LN(stream))))."""
        split = self._precision.ffn == "split"
        width = layer.ffn_in[0].halves.shape[2]
        hidden = Operand.empty(len(stream), width, split, True, stream.device)
        self._rows.to_operand(self._normed(stream, self._precision.ffn), *layer.ffn_in, True, hidden)
        self._rows.to_residual(hidden.matrix, *layer.ffn_out, stream, stream)


def _weights(halves: Halves, operands: Operands, biases: Tensor) -> Iterator[tuple[Weight, Tensor]]:
    """Each layer's weight as one product takes it, and its bias."""
    for hi, lo, unscale, bias in zip(*halves, biases, strict=True):
        weight = Weight(torch.stack([hi, lo]) if operands == "split" else hi[None], unscale)
        yield library.tripled(weight), bias
