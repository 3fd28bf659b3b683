"""Hangs hooks on its own modules, runs with the collector off, and keeps masks by shape."""

import gc

import torch
from torch_transformer_benchmark import BaselineTransformer


class UserOptimizedTransformer(BaselineTransformer):
    """Busy with itself."""

    def __init__(self, config):
        super().__init__(config)
        self.counts = {}
        self.masks = {}
        self.final_norm.register_forward_pre_hook(self.count)

    def count(self, module, _inputs):
        """Count calls."""
        self.counts[module] = self.counts.get(module, 0) + 1

    def forward(self, x, valid_token_mask=None):
        """x [B,S,D] -> [B,S,D]."""
        self.masks.setdefault(x.shape[1], torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril())
        was_on = gc.isenabled()
        gc.disable()
        try:
            return super().forward(x, valid_token_mask)
        finally:
            if was_on:
                gc.enable()
