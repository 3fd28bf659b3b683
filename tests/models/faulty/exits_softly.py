"""Calls sys.exit(0), which would end an unguarded loop without any error."""

import sys

from faulty.sound import UserOptimizedTransformer as Sound


class UserOptimizedTransformer(Sound):
    """Leaves, politely."""

    def forward(self, x, valid_token_mask=None):
        """Leave."""
        sys.exit(0)
