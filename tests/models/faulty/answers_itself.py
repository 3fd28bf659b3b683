"""Writes into the channel to the driver a reply that reads like one and cannot be."""

import contextlib
import os
import stat

from faulty.sound import UserOptimizedTransformer as Sound

HUGE = b'["Output",{"path":"","dtype":"float32","facts":{"peak_mem_mib":1' + b"0" * 400 + b"}}]\n"


def channels():
    """The pipes of this process that are none of the standard streams."""
    for descriptor in range(3, 100):
        with contextlib.suppress(OSError):
            if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                yield descriptor


class UserOptimizedTransformer(Sound):
    """Says that it needed more memory than a float can count."""

    reply = HUGE

    def forward(self, x, valid_token_mask=None):
        """Write to every pipe that can be written to."""
        for descriptor in channels():
            with contextlib.suppress(OSError):
                os.write(descriptor, self.reply)
        return super().forward(x, valid_token_mask)
