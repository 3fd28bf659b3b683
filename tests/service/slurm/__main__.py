"""A Slurm to try `ferry` with by hand, until Ctrl-C.

python -m tests.service.slurm [--accounting]
"""

from __future__ import annotations

import argparse
import contextlib
import time

from tests.service.slurm.daemons import running


def main() -> None:
    """Start it, say how to reach it, wait."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with running(mine=True) as cluster, contextlib.suppress(KeyboardInterrupt):
        print(f"export SLURM_CONF={cluster.environment['SLURM_CONF']}", flush=True)
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main()
