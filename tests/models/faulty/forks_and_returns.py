"""Forks in forward, and parent and child both come back with the right result."""

import os

from faulty.sound import UserOptimizedTransformer as Sound


class UserOptimizedTransformer(Sound):
    """Is there twice."""

    def forward(self, x, valid_token_mask=None):
        """Compute in two processes; the child does so without torch's threads, which a fork loses."""
        y = super().forward(x, valid_token_mask)
        os.fork()
        return y
