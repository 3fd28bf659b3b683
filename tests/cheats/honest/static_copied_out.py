"""Works in buffers that it keeps, and copies the result out into memory of the caller's own."""

import torch
from torch_transformer_benchmark import BaselineTransformer


class UserOptimizedTransformer(BaselineTransformer):
    """Keeps its workspace to itself."""

    def __init__(self, config):
        super().__init__(config)
        self.workspace = None

    def forward(self, x, valid_token_mask=None):
        """x [B,S,D] -> a new [B,S,D]."""
        if self.workspace is None or self.workspace.shape != x.shape:
            self.workspace = torch.empty_like(x)
        self.workspace.copy_(super().forward(x, valid_token_mask))
        return self.workspace.clone()
