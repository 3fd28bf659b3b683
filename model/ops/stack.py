"""The whole transformer for small widths in one launch: a program carries a block of rows through all layers.

    x += out(attention(LN(x)));  x += ffn_out(gelu(ffn_in(LN(x))))   for each layer;  y = LN(x)

The residual rows stay in registers for all layers, in float32. A layer's q, k and v go to scratch memory as
float16 halves; attention walks the keys with a running maximum and sum, so there is no score matrix. Between
layers a sequence's blocks wait for each other's keys, causal ones for the earlier blocks alone. Where
the blocks of a sequence could not all run at once, there is one launch a layer instead.

Sources: running softmax: Milakov and Gimelshein, arXiv 1805.02867; attention by blocks: Dao et al., arXiv
2205.14135; split products: see `model.precision`; what the weights hold folded: `model.packing`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ..packing import Halves, Packed
from ..precision import Precision
from ..weights import Layer, Tensors
from .launching import Launch, current_stream, is_captured, on_device_of, processors

MOST_WIDTH = 128
MOST_HIDDEN = 4096
SCRATCH_BYTES = 2**30
MOST_PLANS = 256
FLAG_LINE = 16  # the flags of a sequence, and the ticket counter, stand in cache lines of their own
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


class Tuning(NamedTuple):
    """How the op is cut: rows of a block, keys of a step, columns of a step of each product, warps, stages.

    `together`: heads at once, for blocks too small to keep a processor busy with one. `one_launch`: all
    layers in one launch; else one launch a layer, and one before them.
    """

    block_m: int = 64
    block_n: int = 64
    together: int = 1
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


def cut(batch: int, seq_len: int, processors: int) -> Tuning:
    """The cut for this size where none was measured: blocks small enough to keep most processors at work."""
    block_m = 64
    while block_m > 16 and batch * -(-seq_len // block_m) < 0.9 * processors:
        block_m //= 2
    blocks = -(-seq_len // block_m)
    base = Tuning(block_m, one_launch=blocks <= processors)
    if block_m == 64:
        return base
    # Few rows are soon computed: what counts is how often a block waits for memory.
    few = base._replace(together=4)
    if batch * blocks > processors:
        return few  # two blocks share a processor's memory
    return few._replace(qkv_chunk=128, ffn_chunk=64, stages=3)


class Stack:
    """The op over one model's packed weights, padded as `padded_width` and `padded_hidden` say."""

    def __init__(self, packed: Packed, d_model: int, causal: bool, precision: Precision) -> None:
        self._weights, self._vectors = _weights(packed), _vectors(packed)
        self._layers, self._across = len(packed.q_bias), packed.heads * packed.head_dim
        self._heads, self._hidden = packed.heads, packed.ffn_in_bias.shape[1]
        splits = {f"SPLIT_{name.upper()}": kind == "split" for name, kind in precision._asdict().items()}
        self._constants: dict[str, object] = {
            "LAYERS": self._layers,
            "D": d_model,
            "WIDTH": packed.out_bias.shape[1],
            "HEADS": packed.heads,
            "HEAD_DIM": packed.head_dim,
            "HIDDEN": self._hidden,
            "CAUSAL": causal,
            **splits,
        }
        self._plans: dict[tuple[object, ...], Plan] = {}
        self._memory: dict[int, tuple[Tensor, Tensor]] = {}

    def __call__(self, x: Tensor, valid: Tensor | None = None, tuning: Tuning | None = None) -> Tensor:
        """Map x [B,S,D] to a fresh [B,S,D], zeros where the boolean valid [B,S] is False.

        x, valid and the weights are on one device; x is one of DTYPES.
        """
        with on_device_of(x):
            kind = x.shape, x.dtype, valid is None, tuning
            plan = self._plans.get(kind)
            if plan is None:
                plan = self._plan(x, valid is not None, tuning or cut(x.shape[0], x.shape[1], processors(x)))
                if len(self._plans) >= MOST_PLANS:
                    self._plans.clear()
                self._plans[kind] = plan
            stream = current_stream(x)
            y = torch.empty_like(x, memory_format=torch.contiguous_format)
            shared = self._weights, self._vectors, *self._working_memory(stream, plan, x)
            plan.run(stream, x.contiguous(), y, valid if valid is None else valid.contiguous(), shared)
        return y

    def _working_memory(self, stream: int, plan: Plan, x: Tensor) -> tuple[Tensor, Tensor]:
        """Scratch and flags, which are zero between calls: one pair a stream, that no two calls use at once.

        A graph that is being captured gets its own, which nobody lets go of or makes larger.
        """
        found = None if is_captured(x) else self._memory.get(stream)
        if found is not None and found[0].numel() >= plan.scratch and found[1].numel() >= plan.flags:
            return found
        made = (
            torch.empty(plan.scratch, dtype=torch.float16, device=x.device),
            torch.zeros(plan.flags, dtype=torch.int32, device=x.device),
        )
        if not is_captured(x):
            self._memory[stream] = made
        return made

    def scratch_bytes(self, seq_len: int, tuning: Tuning) -> int:
        """Bytes of scratch memory that one sequence takes."""
        return seq_len * self._buffers(tuning) * 6 * self._across * 2

    def _buffers(self, tuning: Tuning) -> int:
        # Blocks of one launch run ahead of each other; a launch reads one buffer and writes the other.
        return self._layers if tuning.one_launch else min(2, self._layers)

    def _plan(self, x: Tensor, masked: bool, tuning: Tuning) -> Plan:
        batch, seq_len, _ = x.shape
        blocks, sequence_bytes = -(-seq_len // tuning.block_m), self.scratch_bytes(seq_len, tuning)
        step = min(max(1, SCRATCH_BYTES // sequence_bytes), batch)
        parts = [slice(start, min(start + step, batch)) for start in range(0, batch, step)]
        return Plan(
            [(part, self.launches(part.stop - part.start, seq_len, masked, tuning)) for part in parts],
            scratch=step * sequence_bytes // 2,
            flags=FLAG_LINE + step * (_flags(blocks) + FLAG_LINE),
        )

    def launches(self, batch: int, seq_len: int, masked: bool, tuning: Tuning) -> list[Launch]:
        """The launches for so many sequences: one; or one before the layers and one for each."""
        from .stack_kernel import stack_kernel

        blocks = -(-seq_len // tuning.block_m)
        constants = self._constants | {
            "MASKED": masked,
            "BLOCK_M": tuning.block_m,
            "BLOCK_N": tuning.block_n,
            "TOGETHER": _chunk(self._heads, tuning.together),
            "QKV_CHUNK": _chunk(3 * self._across, tuning.qkv_chunk),
            "OUT_CHUNK": _chunk(self._across, tuning.ffn_chunk),
            "FFN_CHUNK": _chunk(self._hidden, tuning.ffn_chunk),
            "STAGES": tuning.stages,
            "BUFFERS": self._buffers(tuning),
            "ONE_LAUNCH": tuning.one_launch,
            "FLAGS": _flags(blocks),
            "num_warps": tuning.warps,
        }
        spans = [(0, self._layers)] if tuning.one_launch else [(0, 0)]
        if not tuning.one_launch:
            spans += [(layer, layer + 1) for layer in range(self._layers)]
        return [
            Launch(
                stack_kernel,
                batch * blocks,
                (seq_len, blocks, *span),
                PROJECT_FIRST=index == 0,
                **constants,
            )
            for index, span in enumerate(spans)
        ]


@dataclass(frozen=True)
class Plan:
    """The launches for one kind of input, part by part of the batch; elements of scratch, and flags."""

    parts: list[tuple[slice, list[Launch]]]
    scratch: int
    flags: int

    def run(
        self, stream: int, x: Tensor, y: Tensor, valid: Tensor | None, shared: tuple[Tensor, ...]
    ) -> None:
        """Write y [B,S,D] for x [B,S,D], both contiguous."""
        whole = len(self.parts) == 1
        for part, launches in self.parts:
            source, target = (x, y) if whole else (x[part], y[part])
            mask = source if valid is None else valid if whole else valid[part]  # unread where there is none
            for index, launch in enumerate(launches):
                # The launch before the layers only reads x.
                launch(stream, target if index > 1 else source, target, mask, *shared)


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


def _flags(blocks: int) -> int:
    """How many flags a sequence has: none are looked at where it is one block."""
    return 1 if blocks == 1 else max(16, _power_of_two(blocks))


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


def _chunk(whole: int, most: int) -> int:
    """The largest power of two that divides `whole`, at most `most`."""
    return min(whole & -whole, most)
