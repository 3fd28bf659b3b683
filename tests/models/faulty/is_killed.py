"""Is killed from outside, as the out-of-memory killer does, but with memory to spare."""

import os
import signal

from faulty.sound import UserOptimizedTransformer as Sound


class UserOptimizedTransformer(Sound):
    """Ends by a signal that nobody can catch."""

    def forward(self, x, valid_token_mask=None):
        """Kill this process."""
        os.kill(os.getpid(), signal.SIGKILL)
