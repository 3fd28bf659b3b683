"""The sdpa route's computation, compiled by torch.compile at the first forward."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType

import torch
from torch import Tensor

from ..levers import Settings
from ..weights import Weights
from . import sdpa
from ._attempt import Attempt

SERVES: dict[str, dict[str, str]] = {"safe": {}, "fast": {}, "fp16": {}}


class Route(Attempt):
    """Compiles `sdpa.whole`; `mode` is one of torch.compile's."""

    ran = "compiled"
    mode: str | None = None

    def __init__(self) -> None:
        super().__init__()
        self._compiled: Callable[..., Tensor] | None = None

    def attempt(self, x: Tensor, valid: Tensor | None, weights: Weights, levers: Settings) -> Tensor:
        """`sdpa.whole`, compiled."""
        config, tensors = weights.config, weights.tensors(levers.fused_qkv)
        return self.call(x, valid, tensors, config.num_heads, config.causal, levers.inplace_residual)

    def call(self, *args: object) -> Tensor:
        """Compile at the first call, then call what was compiled."""
        if self._compiled is None:
            # Dynamo counts recompilations by code object: with one of its own, this model's limit is its own.
            # fullgraph: past the limit it raises, where it would silently stop compiling.
            own = FunctionType(sdpa.whole.__code__.replace(), sdpa.whole.__globals__, sdpa.whole.__name__)
            self._compiled = torch.compile(own, fullgraph=True, mode=self.mode)
        return self._compiled(*args)
