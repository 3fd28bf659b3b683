"""The process that keeps one run on this machine: its cards, its deadline, its end. Standard library only.

It leads a session of its own and has nothing of the connection that started it. A lock on each card is held
by keeper and kernel, so that the card is free when both are gone, whoever killed them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from harness.cards import Card, find_gpus
from templates.there.desk import ROOM, Desk, put, put_once, said
from templates.there.processes import adopt_orphans, end_descendants, process

GRACE_S = 30.0  # the kernel stops by itself before its deadline; after this much more it is asked to
LAST_S = 20.0  # from being asked to end, to being killed
LOOK_S = 0.2
_CPU = Card(-1, "cpu", 0)


class Stopped(BaseException):
    """Somebody asked for the end."""


def start(desk: Desk) -> str:
    """Start a keeper that outlives this process, and wait until the run is its own; return what went wrong.

    Where there is a keeper already, the new one leaves without a word.
    """
    ears, mouth = os.pipe()
    if os.fork() == 0:
        _leave(desk)
    os.close(mouth)
    os.wait()
    with os.fdopen(ears, "rb") as told:
        told.read()  # it ends when the keeper lets go of everything that it had of us
    return "" if desk.keeper.exists() else said(desk.trouble) or "its keeper did not start"


def _leave(desk: Desk) -> None:
    """Become a process that shares nothing with its starter, and keep the run; never returns."""
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.chdir(desk.folder)
        nothing = os.open(os.devnull, os.O_RDWR)
        complaints = os.open(desk.trouble, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for source, target in ((nothing, 0), (nothing, 1), (complaints, 2)):
            os.dup2(source, target)
        if put_once(desk.keeper, process(os.getpid()).text()):
            os.closerange(3, 256)
            keep(desk)
    except BaseException as problem:  # noqa: BLE001 - there is nobody above to hear of it
        os.write(2, f"{type(problem).__name__}: {problem}\n".encode())
    finally:
        os._exit(0)


def keep(desk: Desk) -> None:
    """Wait for cards, run the kernel, and write down how it ended."""

    def stop(*_: object) -> None:
        raise Stopped

    signal.signal(signal.SIGTERM, stop)
    adopt_orphans()
    room = desk.folder / ".ended.json"
    job = json.loads(desk.job.read_text())
    with contextlib.ExitStack() as held:
        try:
            put(room, " " * ROOM)
            locks = _cards(desk, job)
            for lock in locks.values():
                held.enter_context(lock)
            code, reason = _run(desk, job, locks)
        except Stopped:
            code, reason = 143, "stopped"
        except OSError as problem:
            code, reason = 1, f"it could not be started: {problem}"
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end_descendants(os.getpid())
        put(desk.ended, json.dumps({"code": code, "reason": reason}), room if room.exists() else None)


# --- the cards --------------------------------------------------------------------------------------------


def _cards(desk: Desk, job: dict[str, Any]) -> dict[Card, IO[str]]:
    """Return a run's cards with the locks on them; one run at a time has the turn, until it has all."""
    folder = desk.folder.parent / f"cards-{socket.gethostname()}"
    folder.mkdir(exist_ok=True)
    with _turn(desk, folder / "turn"):
        wanted = fitting(find_gpus(), job)
        need = min(job["devices"] or len(wanted), len(wanted))
        locks: dict[Card, IO[str]] = {}
        while True:
            for card in (card for card in wanted if card not in locks):
                if lock := _taken(folder / (card.pin or card.name)):
                    locks[card] = lock
                if len(locks) == need:
                    return locks
            text = f"waits for {_names(need, wanted)}, taken by another run on this machine"
            if said(desk.waits_for) != text:
                put(desk.waits_for, text)
            time.sleep(LOOK_S)


def _turn(desk: Desk, path: Path) -> IO[str]:
    """Return the lock of whoever may choose cards next, once it is ours."""
    if turn := _taken(path):
        return turn
    put(desk.waits_for, "other runs on this machine were here before")
    turn = path.open("a")
    fcntl.flock(turn, fcntl.LOCK_EX)
    return turn


def fitting(gpus: Sequence[Card], job: dict[str, Any]) -> list[Card]:
    """Return the cards that a run may have: of those that the profile allows, the ones of the kind asked for.

    Where none is, the kernel is to say so itself: it gets what there is. Without cards the CPU is one.
    """
    allowed = [card for card in gpus if not job["cards"] or card.index in job["cards"]]
    matching = [card for card in allowed if card.matches(job["accelerator"])] or allowed
    return matching if matching and job["accelerator"] != "cpu" else [_CPU]


def _names(need: int, wanted: Sequence[Card]) -> str:
    names = ", ".join(f"{card.name} {card.index}" if card.is_gpu else "the CPU" for card in wanted)
    return names if need == len(wanted) else f"{need} of {names}"


def _taken(path: Path) -> IO[str] | None:
    """Return a lock that is ours now, None when it is somebody else's."""
    lock = path.open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


# --- the kernel -------------------------------------------------------------------------------------------


def _run(desk: Desk, job: dict[str, Any], locks: Mapping[Card, IO[str]]) -> tuple[int, str]:
    """Run the kernel; return its code and the reason of its end: ended, stopped, deadline."""
    desk.work.mkdir()
    with desk.log.open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, str(desk.kernel)],
            cwd=desk.work,
            env=environment(os.environ, job, list(locks)),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=[lock.fileno() for lock in locks.values()],
        )
    reason = "ended"
    try:
        put(desk.started, process(child.pid).text())
        child.wait(job["timeout_s"] + GRACE_S if job["timeout_s"] else None)
    except Stopped:
        reason = "stopped"
    except subprocess.TimeoutExpired:
        reason = "deadline"
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the end has begun
    code = ended(child)
    return code if code >= 0 else 128 - code, reason


def ended(child: subprocess.Popen[bytes]) -> int:
    """Ask the kernel to end, if it runs, then kill it; return its code."""
    if child.poll() is None:
        with contextlib.suppress(OSError):
            os.killpg(child.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(LAST_S)
        child.kill()
    return child.wait()


def environment(ours: Mapping[str, str], job: dict[str, Any], cards: Sequence[Card]) -> dict[str, str]:
    """Return the kernel's environment: nothing of the connection, the profile's words, the run's cards."""
    kept = {name: value for name, value in ours.items() if not name.startswith("SSH_")}
    pins = ",".join(card.pin for card in cards if card.is_gpu)
    cpu = {"CUDA_VISIBLE_DEVICES": ""} if job["accelerator"] == "cpu" else {}
    return {**kept, **({"CUDA_VISIBLE_DEVICES": pins} if pins else cpu), **job["environment"]}
