"""Fills the channel to the driver with a line that has no end."""

import contextlib
import os

from faulty.answers_itself import UserOptimizedTransformer as Answering
from faulty.answers_itself import channels

PIECE = b" " * 65536


class UserOptimizedTransformer(Answering):
    """Would fill the driver's memory."""

    def forward(self, x, valid_token_mask=None):
        """Write for ever."""
        for descriptor in channels():
            with contextlib.suppress(OSError):
                while True:
                    os.write(descriptor, PIECE)
