"""Forks a child that holds all pipes open, then leaves."""

import os
import time

from faulty.sound import UserOptimizedTransformer as Sound


class UserOptimizedTransformer(Sound):
    """Dies before its child."""

    def forward(self, x, valid_token_mask=None):
        """Fork and leave."""
        if os.fork() == 0:
            os.setsid()
            time.sleep(86399)
        os._exit(4)
