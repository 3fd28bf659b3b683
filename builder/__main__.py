"""`ferry` and `python -m builder`: the same program."""

from __future__ import annotations


def main() -> None:
    """Run the command line and exit with its code."""
    from builder.cli import main as run

    run()


if __name__ == "__main__":
    main()
