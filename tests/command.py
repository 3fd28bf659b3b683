"""`ferry` as people type it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run_ferry(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command of this checkout's `ferry`, anywhere, with no terminal."""
    return subprocess.run(
        [sys.executable, "-m", "builder", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        check=False,
    )
