"""`python -m harness`: the contest's script by hand."""

import sys

from harness.script import main

if __name__ == "__main__":
    sys.exit(main())
