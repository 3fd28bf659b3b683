"""Tensor cores at any width: bias, GELU and residual fused into products, attention with no score matrix."""

from __future__ import annotations

from torch import Tensor

from ..levers import Settings
from ..packing import Packed, pack, padded_head_dim
from ..precision import NAMED
from ..weights import Weights
from ._tensor_cores import Op, TensorCores
from .graphed import Graphs

SERVES: dict[str, dict[str, str]] = {
    "safe": {},
    "fast": {"LEVER_PRECISION": "fast"},
    "fp16": {"LEVER_PRECISION": "fp16"},
}
# Below this many operations a layer the launches cost the host more than the work costs the device.
SMALL_LAYER = 5e9


class Route(TensorCores):
    """The op `wide`, replayed as a graph where its launches would cost more than its work."""

    ran = "wide"

    def __init__(self) -> None:
        super().__init__()
        self._graphs = Graphs()

    def pack(self, weights: Weights) -> Packed:
        """See `_tensor_cores.TensorCores.pack`."""
        return pack(weights)

    def op_refusal(self, x: Tensor, weights: Weights) -> str:
        """See `_tensor_cores.TensorCores.op_refusal`."""
        from ..ops import wide

        return wide.refusal(x.shape[2], weights.config.num_heads, x.dtype)

    def make(self, packed: Packed, weights: Weights, levers: Settings) -> Op:
        """See `_tensor_cores.TensorCores.make`."""
        from ..ops.wide import Cut, Wide

        config, cut = weights.config, Cut(levers.products, levers.attention)
        return Wide(packed, config.d_model, config.causal, NAMED[levers.precision], cut)

    def attempt(self, x: Tensor, valid: Tensor | None, weights: Weights, levers: Settings) -> Tensor:
        """Run the op, or the graph of it."""
        op = self.op(weights, levers)
        if x.is_cuda and (levers.graph == "on" or (levers.graph == "auto" and is_small(x, weights))):
            return self._graphs.replay(op, x, valid, (op,))
        return op(x, valid)

    def bytes_per_row(self, x: Tensor, valid: Tensor | None, weights: Weights, levers: Settings) -> int:
        """The residual stream and the larger of attention and feed-forward; packed copies for torch's."""
        _, seq_len, width = x.shape
        config, precision = weights.config, NAMED[levers.precision]
        across = config.num_heads * padded_head_dim(width // config.num_heads)
        wide = -(-width // 16) * 16
        parts = {name: 2 if operands == "split" else 1 for name, operands in precision._asdict().items()}
        attending = 2 * (max(parts["qkv"] * wide, parts["out"] * across) + parts["attention"] * 3 * across)
        feeding = 2 * parts["ffn"] * (wide + config.ffn_dim)
        if levers.products == "cublas":
            # The product in float32, and operands that hold the high half twice.
            attending = attending * 3 // 2 + 4 * 3 * across
            feeding = feeding * 3 // 2 + 4 * max(config.ffn_dim, wide)
        copies = 2 * width * x.element_size() if levers.attention == "torch" and valid is not None else 0
        return seq_len * (width * (4 + x.element_size()) + max(attending, feeding) + copies)


def is_small(x: Tensor, weights: Weights) -> bool:
    """Whether a layer's work is less than its launches."""
    batch, seq_len, width = x.shape
    flop = 2 * batch * seq_len * width * (4 * width + 2 * weights.config.ffn_dim + 2 * seq_len)
    return flop < SMALL_LAYER
