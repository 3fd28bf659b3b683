"""Takes memory until there is none; a limit of its own stands for the machine's end."""

import resource
from pathlib import Path

from faulty.sound import UserOptimizedTransformer as Sound

ROOM = 1 << 28


class UserOptimizedTransformer(Sound):
    """Never has enough."""

    def forward(self, x, valid_token_mask=None):
        """Hold on to block after block, each written to."""
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + ROOM
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        held = []
        while True:
            held.append(bytearray(b"x" * (1 << 24)))
