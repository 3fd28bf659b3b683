"""Is right at every length that a reference with all scores can check, and wrong beyond."""

from faulty.sound import UserOptimizedTransformer as Sound


class UserOptimizedTransformer(Sound):
    """Spoils one element of a long sequence."""

    def forward(self, x, valid_token_mask=None):
        """Compute, then spoil the end of the last sequence."""
        y = super().forward(x, valid_token_mask).clone()
        if x.shape[1] > 400:
            y[-1, -1, -1] += 1
        return y
