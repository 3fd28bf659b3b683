"""Tensor cores up to a width of 128: one launch carries each block of rows through all layers."""

from __future__ import annotations

from torch import Tensor

from ..levers import Settings
from ..packing import Packed, pack
from ..precision import NAMED
from ..weights import Weights
from ._tensor_cores import Op, TensorCores

SERVES: dict[str, dict[str, str]] = {
    "safe": {},
    "fast": {"LEVER_PRECISION": "fast"},
    "fp16": {"LEVER_PRECISION": "fp16"},
}


class Route(TensorCores):
    """The op `stack`."""

    ran = "stack"

    def pack(self, weights: Weights) -> Packed:
        """See `_tensor_cores.TensorCores.pack`."""
        from ..ops import stack

        config = weights.config
        return pack(weights, stack.padded_width(config.d_model), stack.padded_hidden(config.ffn_dim))

    def op_refusal(self, x: Tensor, weights: Weights) -> str:
        """See `_tensor_cores.TensorCores.op_refusal`."""
        from ..ops import stack

        return stack.refusal(weights.config.d_model, weights.config.ffn_dim, x.dtype)

    def make(self, packed: Packed, weights: Weights, levers: Settings) -> Op:
        """See `_tensor_cores.TensorCores.make`."""
        from ..ops.stack import Stack

        config = weights.config
        return Stack(packed, config.d_model, config.causal, NAMED[levers.precision])

    def bytes_per_row(self, x: Tensor, valid: Tensor | None, weights: Weights, levers: Settings) -> int:
        """The output alone: the op's scratch has a bound of its own, whatever the batch."""
        return x.shape[1] * x.shape[2] * x.element_size()
