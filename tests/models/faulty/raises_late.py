"""Passes the gate, then raises in the middle of the timing."""

from faulty.sound import UserOptimizedTransformer as Sound


class UserOptimizedTransformer(Sound):
    """Survives seven calls."""

    calls = 0

    def forward(self, x, valid_token_mask=None):
        """Raise at the eighth call: five trials, one warm-up, and one timed call are before it."""
        self.calls += 1
        if self.calls > 7:
            raise ArithmeticError("too many calls")
        return super().forward(x, valid_token_mask)
