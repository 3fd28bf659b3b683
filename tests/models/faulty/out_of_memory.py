"""Asks torch for a pebibyte."""

import torch

from faulty.sound import UserOptimizedTransformer as Sound


class UserOptimizedTransformer(Sound):
    """Takes more than there is."""

    def forward(self, x, valid_token_mask=None):
        """Allocate."""
        return torch.empty(1 << 50)
