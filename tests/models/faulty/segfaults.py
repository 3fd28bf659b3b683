"""Reads address 0."""

import ctypes

from faulty.sound import UserOptimizedTransformer as Sound


class UserOptimizedTransformer(Sound):
    """Crashes the process."""

    def forward(self, x, valid_token_mask=None):
        """Read where nothing is."""
        return ctypes.string_at(0)
