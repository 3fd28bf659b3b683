"""A user of its own for each card's worker, where the kernel is root. Standard library only.

A process of the same user reads and writes its parent's memory through /proc. A worker under another user
cannot: neither the driver's key nor the judge's figures are within its reach.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TRIAL_S = 120.0
_HIGHEST = 65_533  # the user `nobody` comes after it, and others may run under that
_LOWEST = 60_000
_CLEARING_S = 2.0

# Whether a worker could live: read what it runs, write to its home, use its device.
_TRIAL = """
import importlib.util, os, pathlib, sys
torch = pathlib.Path(importlib.util.find_spec("torch").origin)
for path in (torch, importlib.util.find_spec("harness.worker").origin, *torch.parent.glob("lib/*.so")):
    open(path, "rb").close()
(pathlib.Path.home() / "trial").touch()
if sys.argv[1] == "cuda":
    import torch
    torch.ones(1, device="cuda").add_(1).item()
"""

_PR_SET_DUMPABLE = 4

_LOCKS = "gpuferry-users"  # a folder of root's, with a file for each user that a driver has taken

_lock = threading.Lock()
_given: dict[int, int] = {}  # by user, the open file that is locked as long as this process lives


@dataclass(frozen=True)
class Identity:
    """The user and group that a worker runs as, and the only folder of the disk that is its own."""

    uid: int
    home: Path

    def environment(self) -> dict[str, str]:
        """What tells a process where it may write, and a name for a user that no table lists."""
        folders = dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), str(self.home))
        return folders | dict.fromkeys(("USER", "LOGNAME"), "ferry-worker")

    def kill_all(self) -> bool:
        """Kill every process of this user, whatever it has made of itself; return whether all are gone.

        A process of the user itself does it: its kill reaches all others at once, so that none forks away.
        """
        end = time.monotonic() + _CLEARING_S
        while _owns_processes(self.uid):
            if time.monotonic() > end:
                return False
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                code = f"import os; os.kill(-1, {int(signal.SIGKILL)})"
                run_as(self.uid, [sys.executable, "-I", "-S", "-c", code], {}, timeout_s=_CLEARING_S)
        return True


def keep_to_itself() -> None:
    """Close this process's memory and environment to its own user's other processes; root still sees them."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0)


def isolate(
    device: str, environment: Mapping[str, str], home: Path, root: Path, program: str = sys.executable
) -> Identity | str:
    """Return a user for a worker on `device` that has tried the machine out, or why there is none.

    `home` becomes its folder; `root` is the folder of the bundle, `program` the Python that is to run there.
    """
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "the kernel is not root"
    try:
        with _lock:
            uid = take()
    except OSError as problem:
        return f"no user can be taken: {_one_line(str(problem))}"
    if uid is None:
        return "no user is free"
    identity = Identity(uid, home)
    command = [program, "-c", _TRIAL, device]
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chown(home, uid, uid)
        done = run_as(uid, command, {**environment, **identity.environment()}, TRIAL_S, cwd=root)
    except (OSError, subprocess.SubprocessError) as problem:
        return f"another user cannot work here: {_one_line(str(problem))}"
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        return f"another user cannot work here: {_one_line(last)}"
    return identity


def run_as(
    uid: int, command: list[str], environment: Mapping[str, str], timeout_s: float, cwd: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a command as a user, in no group but its own. Raises what `subprocess.run` raises."""
    return subprocess.run(
        command,
        env=dict(environment),
        cwd=cwd or "/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout_s,
        check=False,
        user=uid,
        group=uid,
        extra_groups=[],
    )


def take() -> int | None:
    """Take a user that nobody runs under and that no other driver on this machine has taken, if there is one.

    It is this process's until it ends. Two drivers with one user would kill each other's workers.
    """
    folder = _folder_of_locks()
    for uid in range(_HIGHEST, _LOWEST, -1):
        if uid in _given or _owns_processes(uid):
            continue
        file = os.open(folder / str(uid), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            continue
        _given[uid] = file
        return uid
    return None


def _folder_of_locks() -> Path:
    """Return the folder; where somebody else has made it, one of this process's own, which is no lock."""
    for base in (Path("/run"), Path("/var/lock"), Path(tempfile.gettempdir())):
        folder = base / _LOCKS
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            state = folder.lstat()
            if stat.S_ISDIR(state.st_mode) and state.st_uid == 0 and not state.st_mode & 0o077:
                return folder
    return Path(tempfile.mkdtemp())


def _owns_processes(uid: int) -> bool:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.stat().st_uid == uid and not _is_dead(process):
                return True
    return False


def _is_dead(process: Path) -> bool:
    """Whether it has ended and only waits for its parent to notice."""
    return (process / "stat").read_text(errors="replace").rpartition(")")[2].split()[0] in "ZX"


def _one_line(text: str) -> str:
    return text.replace(";", ",").replace("\n", " ")[:200]
