"""Takes one allocation for several outputs and returns each its own part of it, never the same twice."""

import torch
from torch_transformer_benchmark import BaselineTransformer


class UserOptimizedTransformer(BaselineTransformer):
    """Allocates in advance."""

    def __init__(self, config):
        super().__init__(config)
        self.pool = []

    def forward(self, x, valid_token_mask=None):
        """x [B,S,D] -> [B,S,D], memory that nobody has had."""
        if not self.pool:
            self.pool = list(torch.empty((8, *x.shape), dtype=x.dtype, device=x.device).unbind())
        return self.pool.pop().copy_(super().forward(x, valid_token_mask))
