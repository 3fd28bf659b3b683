"""The sdpa route over a few rows of the batch at a time: what a layer writes stays in the L2 cache."""

from __future__ import annotations

import torch
from torch import Tensor

from .. import padding
from ..levers import Settings
from ..weights import Weights
from . import sdpa

SERVES: dict[str, dict[str, str]] = {"safe": {}, "fast": {}, "fp16": {}}
CPU_CACHE = 1 << 20


class Route(sdpa.Route):
    """As many rows at a time as the cache holds, one at least."""

    ran = "chunked"

    def run(self, x: Tensor, valid: Tensor | None, weights: Weights, levers: Settings) -> Tensor:
        """See `routes.Route.run`."""
        rows = max(1, cache_bytes(x.device) // super().bytes_per_row(x, valid, weights, levers))
        output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        for start in range(0, len(x), rows):
            span = slice(start, start + rows)
            part = padding.rows(valid, start, start + rows)
            output[span] = super().run(x[span], part, weights, levers)
        return output


def cache_bytes(device: torch.device) -> int:
    """The last cache before memory."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).L2_cache_size)
    return CPU_CACHE
