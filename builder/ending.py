"""End a process and the group that it leads, asking first."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import Any

FAREWELL_S = 3.0  # for a driver to end its children, which lead sessions of their own


def end_group(
    process: subprocess.Popen[Any], first: signal.Signals = signal.SIGTERM, farewell_s: float = FAREWELL_S
) -> None:
    """End a process's group, unless it has ended: with `first`, after `farewell_s` seconds by force."""
    if process.poll() is not None:
        return
    for stop in (first, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, stop)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(farewell_s)
