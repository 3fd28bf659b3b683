"""The sdpa route under torch's autocast: products and attention in float16, the residual in float32."""

from __future__ import annotations

import torch
from torch import Tensor

from ..levers import Settings
from ..weights import Weights
from . import sdpa
from ._attempt import Attempt, no_gpu

SERVES: dict[str, dict[str, str]] = {"fp16": {}}


class Route(Attempt):
    """The residual is a new tensor in each layer: added in place to a float16 product it would be float16."""

    ran = "amp"
    doing = "autocast"

    def refusal(self, x: Tensor, weights: Weights, levers: Settings) -> str:
        """A CPU's autocast has no float16 for all of it."""
        return no_gpu(x)

    def attempt(self, x: Tensor, valid: Tensor | None, weights: Weights, levers: Settings) -> Tensor:
        """`sdpa.whole` in mixed precision."""
        config, tensors = weights.config, weights.tensors(levers.fused_qkv)
        with torch.autocast("cuda", dtype=torch.float16):
            y = sdpa.whole(x, valid, tensors, config.num_heads, config.causal, inplace=False)
        return y.to(x.dtype)
