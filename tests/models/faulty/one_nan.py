"""Returns a single nan in the last trial's first element."""

from faulty.sound import UserOptimizedTransformer as Sound


class UserOptimizedTransformer(Sound):
    """Is right almost everywhere."""

    calls = 0

    def forward(self, x, valid_token_mask=None):
        """Compute, then spoil the fifth call."""
        y = super().forward(x, valid_token_mask).clone()
        self.calls += 1
        if self.calls == 5:
            y[0, 0, 0] = float("nan")
        return y
