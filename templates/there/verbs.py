"""What the ssh backend asks of a machine: one verb a call, one JSON object or raw bytes as the answer.

Sent through stdin and run from memory, so that nothing is installed there. Standard library only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.cards import cpu_name, find_gpus
from templates.there.desk import Desk, put
from templates.there.keeper import LAST_S, start
from templates.there.processes import Process, descendants

LOOK_S = 0.2
STOPPED_S = LAST_S + 20.0  # after which a keeper that was asked to stop is killed itself
BLOCK = 1 << 18
_TORCH = "import torch; print(torch.__version__, torch.cuda.is_available())"


def main(verb: str, *arguments: str) -> None:
    """Do what a verb says. What the system refuses is an answer, too; raw bytes end with a failure then."""
    try:
        answer = VERBS[verb](*(json.loads(argument) for argument in arguments))
    except OSError as problem:
        where = f"{problem.filename}: " if problem.filename else ""
        answer = {"problem": f"{where}{problem.strerror or problem}"}
        if verb in RAW:
            sys.exit(answer["problem"])
    if answer is not None:
        print(json.dumps(answer))


def submit(folder: str, name: str, sha256: str, job: dict[str, Any]) -> dict[str, Any]:
    """Put the kernel, which is the rest of stdin, into a folder of its own and start its keeper.

    The folder appears whole, under its name, or not at all; when it is there already, only the keeper is
    started, and that leaves when there is one.
    """
    kernel = sys.stdin.buffer.read()
    if hashlib.sha256(kernel).hexdigest() != sha256:
        return {"problem": "the kernel did not arrive whole"}
    home = root(folder)
    home.mkdir(parents=True, exist_ok=True)
    desk = Desk(home / name)
    if not desk.folder.exists():
        draft = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=home))
        try:
            draft.chmod(0o755)
            put(draft / "kernel.py", kernel.decode())
            put(draft / "job.json", json.dumps(job))
            with contextlib.suppress(OSError):  # it is there by now
                draft.rename(desk.folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    problem = "" if desk.keeper.exists() else start(desk)
    return {"problem": problem} if problem else {"path": str(desk.folder)}


def find(folder: str, name: str) -> dict[str, Any]:
    """Return the path of a run that was started, empty when it was not."""
    desk = Desk(root(folder) / name)
    return {"path": str(desk.folder) if desk.keeper.exists() else ""}


def states(paths: Sequence[str]) -> dict[str, Any]:
    """Return where runs stand, in their order."""
    return {"states": [Desk(Path(path)).state() for path in paths]}


def busy(folder: str) -> dict[str, Any]:
    """Return how many runs this machine has under way, and how many cards."""
    runs = [path.parent for path in root(folder).glob("*/keeper.json")]
    return {"runs": sum(not Desk(path).is_over for path in runs), "cards": len(find_gpus())}


def follow(path: str, position: int) -> None:
    """Write the log from a byte on, as it grows, until the run is over or nobody listens any more."""
    desk = Desk(Path(path))
    listener = select.poll()
    listener.register(sys.stdout.fileno(), select.POLLERR | select.POLLHUP)
    while not listener.poll(0):
        over = desk.is_over  # asked first: what it wrote last is read below
        copied = _copy(desk.log, position)
        position += copied
        if over and not copied:
            return
        if not copied:
            time.sleep(LOOK_S)


def _copy(path: Path, position: int) -> int:
    """Write a file's bytes from a position on; return how many there were."""
    copied = 0
    with contextlib.suppress(FileNotFoundError), path.open("rb") as stream:
        stream.seek(position)
        while block := stream.read(BLOCK):
            sys.stdout.buffer.write(block)
            copied += len(block)
        sys.stdout.buffer.flush()
    return copied


def listing(path: str) -> dict[str, Any]:
    """Return names and sizes of the regular files of the working folder, and the log's size."""
    desk = Desk(Path(path))
    found = sorted(path for path in desk.work.rglob("*") if path.is_file() and _is_inside(path, desk.work))
    files = [(path.relative_to(desk.work).as_posix(), path.stat().st_size) for path in found]
    return {"files": files, "log": desk.log.stat().st_size if desk.log.exists() else -1}


def read(path: str, name: str) -> None:
    """Write a file of the working folder, or without a name the log. OSError: there is none such."""
    desk = Desk(Path(path))
    if not name:
        _copy(desk.log, 0)
        return
    work = desk.work
    if not _is_inside(work / name, work):
        raise OSError(f"{name} leads out of the working folder")
    with (work / name).open("rb") as stream:
        shutil.copyfileobj(stream, sys.stdout.buffer, BLOCK)


def _is_inside(path: Path, folder: Path) -> bool:
    """Whether a path leads, through links too, to what is in a folder."""
    return folder.resolve() in path.resolve().parents


def stop(path: str) -> dict[str, Any]:
    """End a run, and return once nothing of it runs: where it stands then.

    Its keeper does it; where that is gone, or does not answer, it is done from here.
    """
    desk = Desk(Path(path))
    keeper, kernel = desk.process(desk.keeper), desk.process(desk.started)
    if not desk.is_over:
        _end(keeper, STOPPED_S)
        kernel = kernel or desk.process(desk.started)
        for pid in descendants(kernel.pid) if kernel and kernel.is_alive else ():
            _signal(pid, signal.SIGTERM)
        _end(kernel, LAST_S)
        if not desk.ended.exists():
            put(desk.ended, json.dumps({"code": 143, "reason": "stopped"}))
    return states([path])


def _end(process: Process | None, limit_s: float) -> None:
    """Ask a process to end; kill it, and all below it, when it has not after a while."""
    if process is None or not process.is_alive:
        return
    _signal(process.pid, signal.SIGTERM)
    end = time.monotonic() + limit_s
    while process.is_alive and time.monotonic() < end:
        time.sleep(0.05)
    if process.is_alive:
        for pid in (*descendants(process.pid), process.pid):
            _signal(pid, signal.SIGKILL)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def look(folder: str) -> dict[str, Any]:
    """Return what this machine has for a run: Python, torch, cards, and a folder with free space."""
    home = root(folder)
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=home):
        free = shutil.disk_usage(home).free
    command = [sys.executable, "-c", _TORCH]
    torch = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return {
        "machine": socket.gethostname(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "torch": torch.stdout.strip() if torch.returncode == 0 else "",
        "complaint": torch.stderr.strip().rpartition("\n")[2],
        "cards": [card.name for card in find_gpus()],
        "cpu": cpu_name(),
        "folder": str(home),
        "free_bytes": free,
    }


def root(folder: str) -> Path:
    """Return the folder of all runs on this machine; `~` is whoever came in, `$NAME` of its environment."""
    return Path(os.path.expandvars(folder)).expanduser().absolute()


RAW = ("follow", "read")
VERBS: dict[str, Callable[..., dict[str, Any] | None]] = {
    "submit": submit,
    "find": find,
    "states": states,
    "busy": busy,
    "follow": follow,
    "listing": listing,
    "read": read,
    "stop": stop,
    "look": look,
}
