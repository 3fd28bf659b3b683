"""Returns the same memory from every call."""

from faulty.sound import UserOptimizedTransformer as Sound


class UserOptimizedTransformer(Sound):
    """Keeps its output."""

    kept = None

    def forward(self, x, valid_token_mask=None):
        """Compute into the memory of the call before."""
        y = super().forward(x, valid_token_mask)
        if self.kept is None:
            self.kept = y.clone()
        return self.kept.copy_(y)
