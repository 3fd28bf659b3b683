"""The whole transformer for small widths in one launch: a program carries a block of rows through all layers.

    x += out(attention(LN(x)));  x += ffn_out(gelu(ffn_in(LN(x))))   for each layer;  y = LN(x)

The residual rows stay in registers for all layers, in float32. A layer's q, k and v go to scratch memory as
float16 halves; attention walks the keys with a running maximum and sum, and each head's result goes through
its slice of the output projection at once, so there is neither a score matrix nor a merged [S,D]. Between
layers a sequence's blocks wait for each other's keys, causal ones for the earlier blocks alone. Where
the blocks of a sequence could not all run at once, there is one launch a layer instead.

Sources: running softmax: Milakov and Gimelshein, arXiv 1805.02867; attention by blocks: Dao et al., arXiv
2205.14135; split products: see `model.precision`; what the weights hold folded: `model.packing`.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ..packing import Halves, Packed
from ..precision import Precision
from ..weights import Layer, Tensors

MOST_WIDTH = 128
MOST_HIDDEN = 4096
SCRATCH_BYTES = 2**30
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


class Tuning(NamedTuple):
    """How the op is cut: rows of a block, keys of a step, columns of a step of each product, warps, stages.

    `one_launch`: all layers in one launch; else one launch a layer, and one before them.
    """

    block_m: int = 64
    block_n: int = 64
    qkv_chunk: int = 64
    ffn_chunk: int = 32
    warps: int = 4
    stages: int = 2
    one_launch: bool = True


def reference(x: Tensor, valid: Tensor | None, tensors: Tensors, heads: int, causal: bool) -> Tensor:
    """The same of x [B,S,D] in plain torch and x's dtype; valid [B,S] is True where a token counts."""
    seen = x.new_ones(x.shape[1], x.shape[1], dtype=torch.bool)
    seen = (seen.tril() if causal else seen)[None, None]
    if valid is not None:
        seen = seen & valid[:, None, None, :]
    for layer in tensors.layers:
        x = x + _reference_attention(_norm(x, layer.norm1), layer, heads, seen)
        h = functional.gelu(functional.linear(_norm(x, layer.norm2), *layer.ffn_in))
        x = _zero(x + functional.linear(h, *layer.ffn_out), valid)
    return _zero(_norm(x, tensors.final_norm), valid)


def _reference_attention(n: Tensor, layer: Layer, heads: int, seen: Tensor) -> Tensor:
    """Attention over n [B,S,D], seen [B or 1,1,S,S]; a query that sees no key gets zero."""
    shape = (*n.shape[:2], heads, n.shape[2] // heads)
    q, k, v = (functional.linear(n, *pair).view(shape).transpose(1, 2) for pair in layer.qkv)
    scores = (q @ k.mT * shape[-1] ** -0.5).masked_fill(~seen, float("-inf"))
    merged = (torch.softmax(scores, -1).nan_to_num(0.0) @ v).transpose(1, 2).flatten(2)
    return functional.linear(merged, *layer.out)


def _norm(x: Tensor, pair: tuple[Tensor, Tensor]) -> Tensor:
    return functional.layer_norm(x, x.shape[-1:], *pair)


def _zero(x: Tensor, valid: Tensor | None) -> Tensor:
    return x if valid is None else x.masked_fill(~valid[..., None], 0.0)


def padded_width(d_model: int) -> int:
    """What D must be padded to in the packed weights: a power of two, 16 at least."""
    return max(16, _power_of_two(d_model))


def padded_hidden(ffn_dim: int) -> int:
    """What F must be padded to in the packed weights: a power of two up to 64, then a multiple of 64."""
    return max(16, _power_of_two(ffn_dim)) if ffn_dim <= 64 else -(-ffn_dim // 64) * 64


def refusal(d_model: int, ffn_dim: int, dtype: torch.dtype) -> str:
    """Why the op cannot serve a model of these widths, "" when it can; weights: `Packed.refusal`."""
    if d_model > MOST_WIDTH:
        return f"D = {d_model} is more than {MOST_WIDTH}"
    if ffn_dim > MOST_HIDDEN:
        return f"F = {ffn_dim} is more than {MOST_HIDDEN}"
    return "" if dtype in DTYPES else f"{dtype} is not among {', '.join(map(str, DTYPES))}"


class Stack:
    """The op over one model's packed weights, padded as `padded_width` and `padded_hidden` say."""

    def __init__(self, packed: Packed, d_model: int, causal: bool, precision: Precision) -> None:
        self._weights, self._vectors = _weights(packed), _vectors(packed)
        self._layers, self._across = len(packed.q_bias), packed.heads * packed.head_dim
        self._d_model = d_model
        self._constants: dict[str, object] = {
            "LAYERS": self._layers,
            "D": d_model,
            "WIDTH": packed.out_bias.shape[1],
            "HEADS": packed.heads,
            "HEAD_DIM": packed.head_dim,
            "HIDDEN": packed.ffn_in_bias.shape[1],
            "CAUSAL": causal,
            **{
                f"SPLIT_{name.upper()}": operands == "split" for name, operands in precision._asdict().items()
            },
        }
        self._flags: Tensor | None = None

    def __call__(self, x: Tensor, valid: Tensor | None = None, tuning: Tuning | None = None) -> Tensor:
        """Map x [B,S,D] to a fresh [B,S,D], zeros where the boolean valid [B,S] is False."""
        tuning = tuning or self.tuning(x.shape[0], x.shape[1], x.device)
        x = x.contiguous()
        y = torch.empty_like(x)
        if valid is not None:
            valid = valid.contiguous()
        step = max(1, SCRATCH_BYTES // self.scratch_bytes(x.shape[1], tuning))
        for start in range(0, len(x), step):
            rows = slice(start, start + step)
            self._run(x[rows], y[rows], None if valid is None else valid[rows], tuning)
        return y

    def tuning(self, batch: int, seq_len: int, device: torch.device) -> Tuning:
        """The cut for this size on this device."""
        processors = _processors(device)
        block_m = 64
        while block_m > 16 and batch * -(-seq_len // block_m) < processors:
            block_m //= 2
        blocks = -(-seq_len // block_m)
        return Tuning(block_m=block_m, one_launch=blocks <= processors)

    def scratch_bytes(self, seq_len: int, tuning: Tuning) -> int:
        """Bytes of scratch memory that one sequence takes."""
        return seq_len * self._buffers(tuning) * 6 * self._across * 2

    def _buffers(self, tuning: Tuning) -> int:
        # Blocks of one launch run ahead of each other; a launch reads one buffer and writes the other.
        return self._layers if tuning.one_launch else min(2, self._layers)

    def _run(self, x: Tensor, y: Tensor, valid: Tensor | None, tuning: Tuning) -> None:
        from .stack_kernel import stack_kernel

        batch, seq_len, _ = x.shape
        blocks = -(-seq_len // tuning.block_m)
        flags = _power_of_two(blocks)
        scratch = torch.empty(
            batch * self.scratch_bytes(seq_len, tuning) // 2, dtype=torch.float16, device=x.device
        )
        if self._flags is None or len(self._flags) < 16 + batch * (flags + 16):
            self._flags = torch.zeros(16 + batch * (flags + 16), dtype=torch.int32, device=x.device)
        constants = self._constants | {
            "MASKED": valid is not None,
            "BLOCK_M": tuning.block_m,
            "BLOCK_N": tuning.block_n,
            "QKV_CHUNK": _chunk(3 * self._across, tuning.qkv_chunk),
            "FFN_CHUNK": _chunk(int(str(self._constants["HIDDEN"])), tuning.ffn_chunk),
            "STAGES": tuning.stages,
            "BUFFERS": self._buffers(tuning),
            "ONE_LAUNCH": tuning.one_launch,
            "FLAGS": flags,
            "num_warps": tuning.warps,
        }
        mask = self._flags if valid is None else valid
        for source, first, last, project_first in self._launches(tuning.one_launch):
            stack_kernel[(batch * blocks,)](
                y if source else x, y, mask, self._weights, self._vectors, scratch, self._flags,
                seq_len, blocks, first, last, PROJECT_FIRST=project_first, **constants,
            )  # fmt: skip

    def _launches(self, one_launch: bool) -> list[tuple[bool, int, int, bool]]:
        """For each launch: whether it reads y, its layers from and to, whether it projects first."""
        if one_launch:
            return [(False, 0, self._layers, True)]
        layers = [(layer > 0, layer, layer + 1, False) for layer in range(self._layers)]
        return [(False, 0, 0, True), *layers]


def _weights(packed: Packed) -> Tensor:
    products: tuple[Halves, ...] = (packed.qkv, packed.out, packed.ffn_in, packed.ffn_out)
    return torch.cat([half.flatten(1) for product in products for half in product[:2]], 1).flatten()


def _vectors(packed: Packed) -> Tensor:
    across = packed.q_bias.shape[1]
    scales = [p.unscale for p in (packed.qkv, packed.out, packed.ffn_in, packed.ffn_out)]
    parts = [
        functional.pad(packed.q_bias, (0, 2 * across)),
        packed.out_bias,
        packed.ffn_in_bias,
        packed.ffn_out_bias,
        functional.pad(packed.q_bias.new_tensor(scales).T, (0, 12)),
    ]
    return torch.cat([torch.cat(parts, 1).flatten(), *packed.final_norm])


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


def _chunk(whole: int, most: int) -> int:
    """The largest power of two that divides `whole`, at most `most`."""
    return min(whole & -whole, most)


@functools.cache
def _processors(device: torch.device) -> int:
    if device.type != "cuda":
        return 1
    return torch.cuda.get_device_properties(device).multi_processor_count
