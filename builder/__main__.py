"""`ferry` and `python -m builder`: the same program."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit with its code."""
    if sys.argv[1:] in (["--help"], ["-h"]):
        from builder.overview import overview

        sys.stdout.write(overview())
        return
    from builder.cli import main as run

    run()


if __name__ == "__main__":
    main()
