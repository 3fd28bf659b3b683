"""Prints megabytes in every way there is, and computes the right thing."""

import os
import subprocess
import sys

from faulty.sound import UserOptimizedTransformer as Sound


class UserOptimizedTransformer(Sound):
    """Talks too much, once."""

    said = False

    def forward(self, x, valid_token_mask=None):
        """Print at all levels, then compute."""
        if not self.said:
            self.said = True
            print("the first line of the flood")
            os.write(1, b"0123456789abcde\n" * 250_000)
            os.write(2, b"x" * 1_000_000)
            subprocess.run(["printf", "\nfrom a child process\n"], check=True)
            print("the last line of the flood", file=sys.stderr)
            print("no line end", end="")
        return super().forward(x, valid_token_mask)
