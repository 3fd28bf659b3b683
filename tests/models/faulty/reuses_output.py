"""Returns the same memory each time, as a model with static buffers does that nobody copies out of."""

from faulty.sound import UserOptimizedTransformer as Sound


class UserOptimizedTransformer(Sound):
    """Right until the next call."""

    buffer = None

    def forward(self, x, valid_token_mask=None):
        """Compute into the one buffer."""
        y = super().forward(x, valid_token_mask)
        if self.buffer is None:
            self.buffer = y.clone()
        return self.buffer.copy_(y)
