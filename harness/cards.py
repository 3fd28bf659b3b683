"""Which cards there are, found without torch. Standard library only."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

_QUERY = "index,uuid,name,memory.total,driver_version"
_LINE = re.compile(r"\d+(,[^,]*){4}$")
_MIB = 2**20


@dataclass(frozen=True)
class Card:
    """One GPU, or the CPU with index -1. `pin` is what CUDA_VISIBLE_DEVICES gets to see this card alone.

    `threads` is how many CPU threads a process on it may use, 0 for no rule; memory 0 is unknown.
    """

    index: int
    name: str
    memory_bytes: int
    driver: str = ""
    pin: str = ""
    threads: int = 0

    @property
    def is_gpu(self) -> bool:
        """Whether this is a GPU."""
        return self.index >= 0

    def matches(self, asked: str) -> bool:
        """Whether the card is what was asked for: nothing, `any` GPU, `cpu`, or words of its name.

        Whole words: an `L4` is no L40S, an `A10` no A100.
        """
        if asked in ("", "any", "cpu"):
            return asked == "" or self.is_gpu == (asked == "any")
        return self.is_gpu and bool(re.search(rf"(?<!\w){re.escape(asked)}(?!\w)", self.name, re.IGNORECASE))


def find_cards(asked: str, devices: int) -> list[Card]:
    """Return the cards to use: those that match `asked`, else whatever is there; at most `devices`, 0 = all.

    Without a GPU, or when `cpu` is asked for, the CPU is as many equal cards as `devices` says.
    """
    gpus = [] if asked == "cpu" else _visible(_gpus(), os.environ)
    chosen = [card for card in gpus if card.matches(asked)] or gpus
    return chosen[: devices or None] or [_cpu(max(1, devices))] * max(1, devices)


def _gpus() -> list[Card]:
    command = ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [_gpu(line) for line in answer.splitlines() if _LINE.match(line)]


def _gpu(line: str) -> Card:
    index, uuid, name, memory, driver = (part.strip() for part in line.split(","))
    size = int(memory) * _MIB if memory.isdigit() else 0
    return Card(int(index), name, size, driver, pin=uuid)


def _visible(gpus: list[Card], environment: Mapping[str, str]) -> list[Card]:
    """Keep to the cards that somebody above us (slurm, a user) has left visible.

    As CUDA reads it: the first name that is neither a card's number or uuid nor a slice of a card (`-1`,
    `NoDevFiles`) ends the list. A slice's size is not known here.
    """
    if not gpus or "CUDA_VISIBLE_DEVICES" not in environment:
        return gpus
    cards: list[Card] = []
    for name in filter(None, map(str.strip, environment["CUDA_VISIBLE_DEVICES"].split(","))):
        known = [card for card in gpus if name == str(card.index) or card.pin.startswith(name)]
        if not known and not name.startswith("MIG-"):
            break
        cards.append(known[0] if known else replace(gpus[0], index=len(cards), memory_bytes=0, pin=name))
    return cards


def _cpu(workers: int) -> Card:
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return Card(-1, f"cpu {_cpu_name()}", _total_memory(), threads=max(1, cores // workers))


def _cpu_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _total_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return 0
