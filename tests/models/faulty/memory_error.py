"""Asks Python for more than there is."""

from faulty.sound import UserOptimizedTransformer as Sound


class UserOptimizedTransformer(Sound):
    """Takes more than there is."""

    def forward(self, x, valid_token_mask=None):
        """Allocate."""
        return bytearray(1 << 50)
