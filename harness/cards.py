"""Which cards there are, found without torch. Standard library only."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.cores import cores_here, shares

_QUERY = "index,uuid,name,memory.total,driver_version"
_LINE = re.compile(r"\d+(,[^,]*){4,5}$")
_MIB = 2**20


@dataclass(frozen=True)
class Card:
    """One GPU, or the CPU with index -1. `pin` is what CUDA_VISIBLE_DEVICES gets to see this card alone.

    `threads` is how many CPU threads a process on it may use, 0 for no rule; `cores` are the CPU cores that
    its processes keep to, empty for all; memory 0 and capability "" are unknown. `mismatch` says why it is
    not what was asked for; a `simulated` card is a name for this machine's CPU.
    """

    index: int
    name: str
    memory_bytes: int
    driver: str = ""
    pin: str = ""
    threads: int = 0
    capability: str = ""
    cores: tuple[int, ...] = ()
    mismatch: str = ""
    simulated: bool = False

    @property
    def is_gpu(self) -> bool:
        """Whether this is a GPU."""
        return self.index >= 0

    @property
    def torch_device(self) -> str:
        """What torch calls the place where the work is done, `cuda` or `cpu`."""
        return "cuda" if self.is_gpu and not self.simulated else "cpu"

    def matches(self, asked: str) -> bool:
        """Whether the card is what was asked for: nothing, `any` GPU, `cpu`, or words of its name.

        Whole words: an `L4` is no L40S, an `A10` no A100.
        """
        if asked in ("", "any", "cpu"):
            return asked == "" or self.is_gpu == (asked == "any")
        return self.is_gpu and bool(re.search(rf"(?<!\w){re.escape(asked)}(?!\w)", self.name, re.IGNORECASE))


def find_gpus() -> list[Card]:
    """Return the GPUs that nvidia-smi lists and that somebody above us has left visible."""
    return _visible(_listed(), os.environ)


def chosen(gpus: Sequence[Card], asked: str, devices: int) -> list[Card]:
    """Return the GPUs to use: those that match `asked`, else whatever is there; at most `devices`."""
    matching = [card for card in gpus if card.matches(asked)]
    return (matching or list(gpus))[: devices or None]


def cpu_cards(devices: int) -> list[Card]:
    """Return the CPU, as many equal cards as `devices` says."""
    count = max(1, devices)
    threads = max(1, len(cores_here()) // count)
    return [Card(-1, f"cpu {cpu_name()}", total_memory(), threads=threads)] * count


def apart(cards: Sequence[Card]) -> list[Card]:
    """Return the cards, each with cores of its own: what serves one must not take the time of another."""
    if len(cards) < 2:
        return list(cards)
    dealt = zip(cards, shares(cores_here(), len(cards)), strict=True)
    return [
        replace(card, cores=cores, threads=len(cores) or 1)
        if card.torch_device == "cpu"
        # A GPU's worker takes as many threads as it has cores by itself.
        else replace(card, cores=cores)
        for card, cores in dealt
    ]


def _listed() -> list[Card]:
    """Ask for the capability, too, unless nvidia-smi is too old to know it."""
    return _query(f"{_QUERY},compute_cap") or _query(_QUERY)


def _query(fields: str) -> list[Card]:
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [_gpu(line) for line in answer.splitlines() if _LINE.match(line)]


def _gpu(line: str) -> Card:
    index, uuid, name, memory, driver, *capability = (part.strip() for part in line.split(","))
    size = int(memory) * _MIB if memory.isdigit() else 0
    known = [text for text in capability if re.fullmatch(r"\d+\.\d", text)]
    return Card(int(index), name, size, driver, pin=uuid, capability="".join(known))


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


def cpu_name() -> str:
    """Return what this machine calls its CPU."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def total_memory() -> int:
    """Return this machine's memory in bytes, 0 where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return 0
