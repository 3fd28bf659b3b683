"""`ferry` and `python -m builder`: the same program."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line and exit with its code."""
    if sys.argv[1:] in (["--help"], ["-h"]):
        from builder.overview import overview

        try:
            sys.stdout.write(overview())
            sys.stdout.flush()
        except BrokenPipeError:  # the reader has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    from builder.cli import main as run

    run()


if __name__ == "__main__":
    main()
