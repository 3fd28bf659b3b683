"""Leaves without a word to the interpreter."""

import os

from faulty.sound import UserOptimizedTransformer as Sound


class UserOptimizedTransformer(Sound):
    """Ends the process."""

    def forward(self, x, valid_token_mask=None):
        """Leave."""
        os._exit(3)
