"""A Slurm to try `ferry` with by hand, until Ctrl-C.

python -m tests.service.slurm [--accounting]
"""

from __future__ import annotations

import argparse
import contextlib
import time

from tests.service.slurm import accounting
from tests.service.slurm.daemons import running


def main() -> None:
    """Start it, say how to reach it, wait."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--accounting", action="store_true", help="with slurmdbd and a MariaDB of its own")
    account = accounting.start if parser.parse_args().accounting else None
    with running(mine=True, account=account) as cluster, contextlib.suppress(KeyboardInterrupt):
        print(f"export SLURM_CONF={cluster.environment['SLURM_CONF']}", flush=True)
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main()
