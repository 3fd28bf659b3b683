"""Returns the right numbers in half precision."""

from faulty.sound import UserOptimizedTransformer as Sound


class UserOptimizedTransformer(Sound):
    """Rounds its result."""

    def forward(self, x, valid_token_mask=None):
        """Compute, then round."""
        return super().forward(x, valid_token_mask).half()
