"""What a kernel says of the hardware it meets. Standard library only; `harness.events` hands it on."""

from __future__ import annotations

from dataclasses import dataclass

SIMULATED = "simulated "  # begins the name of a device that FERRY_TEST_HARDWARE made up


@dataclass(frozen=True)
class Device:
    """One card as the process on it sees it; `index` is -1 for a CPU, whose name starts with `cpu`."""

    index: int
    name: str
    capability: str = ""
    memory_mib: int = 0
    driver: str = ""
    torch: str = ""
    triton: str = ""
    cuda: str = ""
    python: str = ""
    threads: int = 0

    @property
    def is_gpu(self) -> bool:
        """Whether this is a GPU."""
        return self.index >= 0


@dataclass(frozen=True)
class Hardware:
    """What machine a kernel found: once an attempt, before its first case; all that a probe has to say.

    `asked` says in words what the order wants, `finding` why what came is not that; empty when it is.
    `cards` are all GPUs in sight (index, name, capability, memory, driver), none on a CPU. What torch said is
    empty where it was not asked: `arches` is what it has code for, as `sm_75` and `compute_90`. Sizes are in
    MiB, `disk_mib` is what is free in the working folder; `internet` is None unless a probe has tried.
    """

    asked: str
    finding: str = ""
    cards: tuple[Device, ...] = ()
    torch: str = ""
    triton: str = ""
    cuda: str = ""
    arches: tuple[str, ...] = ()
    python: str = ""
    cpu: str = ""
    cpus: int = 0
    ram_mib: int = 0
    disk_mib: int = 0
    internet: bool | None = None


def is_simulated(device: str) -> bool:
    """Whether a device's name says that it was made up for a test: its figures measure nothing."""
    return device.startswith(SIMULATED)
