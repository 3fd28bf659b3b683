"""Is ended by a signal that has no name."""

import os
import signal

from faulty.sound import UserOptimizedTransformer as Sound


class UserOptimizedTransformer(Sound):
    """Ends by a real-time signal."""

    def forward(self, x, valid_token_mask=None):
        """Send it to this process."""
        os.kill(os.getpid(), signal.SIGRTMIN + 6)
