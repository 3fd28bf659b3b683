"""The rehearsal: the exact kernel text runs one tiny case here before it is pushed.

What can be known in seconds then never costs a session over there. An interpreter without torch only unpacks
and compiles.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from builder.ending import end_group
from builder.errors import RefusedHereError
from harness.events import MARKER, CaseDone, DamagedEventError, decode

TAIL_LINES = 20

_HAS_TORCH = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"


@dataclass(frozen=True)
class Rehearsal:
    """How it went: `passed`, `checked` (no torch here), or `unfinished`; `detail` says it in a sentence."""

    outcome: str
    detail: str


def has_torch(python: str) -> bool:
    """Whether an interpreter can find torch; it is not imported. OSError when there is no such program."""
    return subprocess.run([python, "-c", _HAS_TORCH], stdin=subprocess.DEVNULL, check=False).returncode == 0


def rehearse(kernel_py: Path, python: str = sys.executable, limit_s: float = 10.0) -> Rehearsal:
    """Run `kernel.py --rehearse` in a temporary folder, for at most `limit_s` seconds.

    Raises RefusedHereError with the tail of the failing case's error, or of the output when no case failed.
    """
    with tempfile.TemporaryDirectory(prefix="ferry-rehearsal-") as folder:
        argument = "--rehearse" if has_torch(python) else "--check"
        code, output = _run([python, str(kernel_py.resolve()), argument], Path(folder), limit_s)
    if code is None:
        return Rehearsal(
            "unfinished", f"the rehearsal had not ended after {limit_s:g} s; nothing failed in it"
        )
    if code == 0:
        return Rehearsal(*_PASSED[argument])
    raise RefusedHereError(_failure(output), "mend it, or push without a rehearsal: --no-rehearsal")


_PASSED = {
    "--rehearse": ("passed", "the kernel ran one tiny case here"),
    "--check": ("checked", "there is no torch here, so the kernel was only unpacked and compiled"),
}


def _run(command: list[str], folder: Path, limit_s: float) -> tuple[int | None, str]:
    """Return exit code, None when the time ran out, and output. The process has a group of its own."""
    log = folder / "output.txt"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "TMPDIR": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end_group(process)
    return code, log.read_text(encoding="utf-8", errors="replace")


def _failure(output: str) -> str:
    for case in _cases(output):
        if case.status != "passed":
            kind = f" ({case.error_kind})" if case.error_kind else ""
            return f"the rehearsal's case ended {case.status}{kind}\n{_tail(case.error)}"
    return f"the kernel failed before its first case ended\n{_tail(output)}"


def _cases(output: str) -> Iterator[CaseDone]:
    for line in output.splitlines():
        with contextlib.suppress(DamagedEventError):
            event = decode(line)
            if event and isinstance(event.body, CaseDone):
                yield event.body


def _tail(text: str) -> str:
    lines = [line for line in text.rstrip().splitlines() if MARKER not in line]
    return "\n".join(lines[-TAIL_LINES:])
