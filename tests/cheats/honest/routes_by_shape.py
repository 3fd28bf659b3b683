"""Chooses how to compute by the shape of the input: whole, or in pieces of the batch."""

import torch
from torch_transformer_benchmark import BaselineTransformer


class UserOptimizedTransformer(BaselineTransformer):
    """Two ways to the same output."""

    def forward(self, x, valid_token_mask=None):
        """x [B,S,D] -> [B,S,D]."""
        if x.shape[0] < 4:
            return super().forward(x, valid_token_mask)
        pieces = zip(x.split(3), valid_token_mask.split(3), strict=True)
        compute = super().forward
        return torch.cat([compute(*piece) for piece in pieces])
