"""Returns a list."""

from faulty.sound import UserOptimizedTransformer as Sound


class UserOptimizedTransformer(Sound):
    """Wraps its result."""

    def forward(self, x, valid_token_mask=None):
        """Compute, then wrap."""
        return [super().forward(x, valid_token_mask)]
