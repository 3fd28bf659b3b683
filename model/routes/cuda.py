"""Tensor cores by cuBLAS and CUDA C++ compiled where it runs: for a T4, which Triton no longer serves."""

from __future__ import annotations

import functools
from typing import cast

import torch
from torch import Tensor

from ..chunking import Parts
from ..levers import Settings
from ..packing import Packed, pack, padded_head_dim
from ..precision import NAMED
from ..weights import Weights
from ._tensor_cores import Op, TensorCores
from .graphed import Graphs
from .wide import is_small

SERVES: dict[str, dict[str, str]] = {
    "safe": {},
    "fast": {"LEVER_PRECISION": "fast"},
    "fp16": {"LEVER_PRECISION": "fp16"},
}
LEAST_CAPABILITY = (7, 5)  # older tensor cores have other instructions


class Route(TensorCores):
    """The op `cuda_wide`, replayed as a graph where its launches would cost more than its work.

    On newer cards it runs the same code, so that it can be proved where there is no T4.
    """

    ran = "cuda"
    doing = "CUDA C++"

    def __init__(self) -> None:
        super().__init__()
        self._graphs = Graphs()

    def pack(self, weights: Weights) -> Packed:
        """See `_tensor_cores.TensorCores.pack`."""
        return pack(weights)

    def device_refusal(self, device: torch.device) -> str:
        """See `_tensor_cores.TensorCores.device_refusal`."""
        return device_refusal(device)

    def op_refusal(self, x: Tensor, weights: Weights) -> str:
        """See `_tensor_cores.TensorCores.op_refusal`."""
        from ..ops import cuda_wide

        return cuda_wide.refusal(x.shape[2], weights.config.num_heads, x.dtype)

    def make(self, packed: Packed, weights: Weights, levers: Settings) -> Op:
        """See `_tensor_cores.TensorCores.make`."""
        from ..ops.cuda_driver import loader
        from ..ops.cuda_wide import CudaWide

        config = weights.config
        load = loader(packed.q_bias.device)
        return CudaWide(packed, config.d_model, config.causal, NAMED[levers.precision], load)

    def attempt(self, x: Tensor, valid: Tensor | None, weights: Weights, levers: Settings) -> Tensor:
        """Run the op, or the graph of it, or a sequence in parts."""
        from ..ops.cuda_wide import CudaWide
        from ..ops.launching import on_device_of

        op = cast("CudaWide", self.op(weights, levers))
        with on_device_of(x):
            if levers.tokens is not None and levers.tokens < x.shape[1]:
                return op(x, valid, levers.tokens)
            if x.is_cuda and (levers.graph == "on" or (levers.graph == "auto" and is_small(x, weights))):
                return self._graphs.replay(op, x, valid, (op,))
            return op(x, valid)

    def bytes_per_row(self, x: Tensor, valid: Tensor | None, weights: Weights, levers: Settings) -> int:
        """Every token at once: the residual, and the worst of its steps."""
        seq_len, width = x.shape[1:]
        work = max(steps(width, weights, levers.precision, 3).values())
        return seq_len * (4 * width + max(work, width * x.element_size()))

    def parts(self, x: Tensor, weights: Weights, levers: Settings) -> Parts:
        """All tokens: the residual, and keys and values or the output; of a part: the worst of its steps."""
        width = x.shape[2]
        across = _across(width, weights)
        kept = 2 * 2 * across * _halves(levers.precision)["attention"]
        work = steps(width, weights, levers.precision, 2)
        return Parts(4 * width + max(kept, width * x.element_size()), max(work.values()))


def steps(width: int, weights: Weights, precision: str, columns: int) -> dict[str, int]:
    """Bytes that each step of a layer takes for a token, beside the residual.

    columns: how many of q, k and v one product makes. Operands of products hold 3 float16 for halves.
    """
    halves = _halves(precision)
    operand = {name: 2 * (3 if count == 2 else 1) for name, count in halves.items()}
    across, wide = _across(width, weights), -(-width // 16) * 16
    hidden = -(-weights.config.ffn_dim // 16) * 16
    qkv, attended = 2 * halves["attention"] * columns * across, operand["out"] * across
    return {
        "qkv": qkv + operand["qkv"] * wide + 4 * columns * across,
        "attention": qkv + attended,
        "out": attended + 4 * wide,
        "ffn_in": operand["ffn"] * (wide + hidden) + 4 * hidden,
        "ffn_out": operand["ffn"] * hidden + 4 * wide,
    }


def _halves(precision: str) -> dict[str, int]:
    return {name: 2 if operands == "split" else 1 for name, operands in NAMED[precision]._asdict().items()}


def _across(width: int, weights: Weights) -> int:
    heads = weights.config.num_heads
    return heads * padded_head_dim(width // heads)


@functools.cache
def device_refusal(device: torch.device) -> str:
    """Why the code cannot run on a device, "" when it can."""
    if device.type != "cuda":
        return "needs a CUDA GPU"
    found, least = torch.cuda.get_device_capability(device), ".".join(map(str, LEAST_CAPABILITY))
    return "" if found >= LEAST_CAPABILITY else f"needs capability {least}, this is {found[0]}.{found[1]}"
