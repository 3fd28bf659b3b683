"""Prints events that say how fast it is, whole, coloured, and where the channel might be."""

import contextlib
import os

from faulty.sound import UserOptimizedTransformer as Sound
from harness.events import CaseDone, Event, Name, encode


class UserOptimizedTransformer(Sound):
    """Speaks in the driver's voice."""

    def forward(self, x, valid_token_mask=None):
        """Print the same lie in several disguises, then compute."""
        lie = encode(Event(Name("forged", 1, 1, 1), 0.0, CaseDone("forged", 0, "passed")))
        print(lie)
        print("harmless text, then", lie)
        print(lie.replace("@@ferry", "@@fe\x1b[0mrry"))
        print(lie.replace("@@ferry", "@@fe\x00rry"))
        print("@@ferry" + lie)
        print("\r".join(("progress", lie)))
        with contextlib.suppress(OSError):
            os.write(0, lie.encode())
        return super().forward(x, valid_token_mask)
