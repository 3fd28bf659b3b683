"""Who is asked about the hardware: nvidia-smi, torch in a child, the network. Standard library only."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.cards import Card, find_gpus
from harness.events import Device, from_plain
from harness.limits import Limits
from harness.plain import UNREADABLE
from harness.process import ROOT, interpreter

TORCH_DEADLINE_S = 120.0  # a cold disk takes most of a minute to import torch
INTERNET_S = 3.0
WELL_KNOWN = ("example.com", 443)
_TICK_S = 0.25
# Where a GPU's driver shows itself even when there is no nvidia-smi.
_TRACES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/dev/kfd")


@dataclass(frozen=True)
class TorchView:
    """What torch said: its versions, what it has code for, its GPUs; `problem` is why it cannot use them.

    All is empty where there is no torch.
    """

    torch: str = ""
    triton: str = ""
    cuda: str = ""
    arches: tuple[str, ...] = ()
    cards: tuple[Device, ...] = ()
    problem: str = ""


class Senses(Protocol):
    """What the first check asks; the machine answers, or a file that a test wrote."""

    simulated: bool

    def gpus(self) -> list[Card]:
        """Return what nvidia-smi lists."""

    def traces(self) -> bool:
        """Whether there may be a GPU although nvidia-smi lists none."""

    def torch(self, cards: Sequence[Card]) -> TorchView:
        """Return what torch says of these cards, of all when none is named."""

    def internet(self) -> bool:
        """Whether the internet answers."""


class Real:
    """The machine itself."""

    simulated = False

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def gpus(self) -> list[Card]:
        """Return what nvidia-smi lists."""
        return find_gpus()

    def traces(self) -> bool:
        """Whether a driver has left its mark."""
        return any(Path(trace).exists() for trace in _TRACES)

    def torch(self, cards: Sequence[Card]) -> TorchView:
        """Ask torch in a process of its own, which may take its time but not for ever."""
        pins = ",".join(card.pin for card in cards)
        command = [interpreter(), "-m", "harness.torch_view"]
        return asked(command, {"CUDA_VISIBLE_DEVICES": pins} if pins else {}, self._limits)

    def internet(self) -> bool:
        """Whether a well-known host can be reached within three seconds."""
        return answers(*WELL_KNOWN)


def asked(
    command: Sequence[str], more: dict[str, str], limits: Limits, deadline_s: float = TORCH_DEADLINE_S
) -> TorchView:
    """Run the program that asks torch; whatever becomes of it, there is a view, and it is gone."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **more},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    end = time.monotonic() + deadline_s
    while time.monotonic() < end and not limits.reason():
        with contextlib.suppress(subprocess.TimeoutExpired):
            output, _ = process.communicate(timeout=_TICK_S)
            return _read(output, process.returncode)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):  # stuck in the driver of a sick card
        process.communicate(timeout=2)
    return TorchView(problem=f"no answer within {deadline_s:g} s")


def _read(output: str, code: int) -> TorchView:
    lines = output.strip().splitlines()
    for line in reversed(lines):
        with contextlib.suppress(*UNREADABLE):
            return from_plain(TorchView, json.loads(line))
    last = lines[-1] if lines else ""
    if re.match(r"(ModuleNotFound|Import)Error\b", last):
        return TorchView()  # no word about the card; the first case's error tells the whole story
    print(output, file=sys.stderr)
    return TorchView(problem=f"it ended with {code}{last and ': '}{last}")


def answers(host: str, port: int, limit_s: float = INTERNET_S) -> bool:
    """Whether a host takes a connection in time; looking up its name may hang longer, and is left behind."""
    reached = threading.Event()

    def reach() -> None:
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=limit_s):
            reached.set()

    looking = threading.Thread(target=reach, daemon=True)
    looking.start()
    looking.join(limit_s)
    return reached.is_set()
