"""Closes every file that it did not open, as a careless daemon does, and lives on."""

import os
import threading
import time

from faulty.sound import UserOptimizedTransformer as Sound


class UserOptimizedTransformer(Sound):
    """Leaves the process without a way to answer, and with a thread that keeps it from ending."""

    def forward(self, x, valid_token_mask=None):
        """Close what is open, then compute."""
        threading.Thread(target=time.sleep, args=(3600,)).start()
        y = super().forward(x, valid_token_mask)
        os.closerange(3, 1000)
        return y
