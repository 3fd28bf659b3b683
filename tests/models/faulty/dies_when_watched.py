"""Ends its process as soon as a profiler watches it."""

import os

import torch

from faulty.sound import UserOptimizedTransformer as Sound


class UserOptimizedTransformer(Sound):
    """Sound, as long as nobody looks."""

    def forward(self, x, valid_token_mask=None):
        """Compute, or leave."""
        if torch.autograd._profiler_enabled():
            os._exit(3)
        return super().forward(x, valid_token_mask)
