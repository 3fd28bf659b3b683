"""The CPU's cores, dealt to the cards that work side by side. Standard library only."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

_TOPOLOGY = Path("/sys/devices/system/cpu")


def cores_here() -> tuple[int, ...]:
    """Return the numbers of the cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return tuple(sorted(affinity(0))) if affinity else tuple(range(os.cpu_count() or 1))


def shares(cores: Sequence[int], count: int, topology: Path = _TOPOLOGY) -> list[tuple[int, ...]]:
    """Deal the cores to `count` neighbours, equally many each; none to anybody where there are too few.

    Threads of one physical core stay together where they can: two neighbours on one core slow each other.
    """
    each = len(cores) // count
    ordered = sorted(cores, key=lambda core: (_first_sibling(core, topology), core))
    return [tuple(sorted(ordered[each * place : each * (place + 1)])) for place in range(count)]


def queued_ns(pid: int) -> int:
    """Return how long a process has been ready to run and had no core, in nanoseconds, by the kernel's books.

    That is its first thread's time; 0 where the system does not say.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[1])
    return 0


def keep_to(cores: Iterable[int]) -> None:
    """Let this thread, and every process that it starts from now on, run on these cores only; none: anywhere.

    Where the system has no such call, or says no, nothing changes.
    """
    with contextlib.suppress(OSError, AttributeError):
        if wanted := set(cores):
            os.sched_setaffinity(0, wanted)


def _first_sibling(core: int, topology: Path) -> int:
    with contextlib.suppress(OSError, ValueError):
        siblings = (topology / f"cpu{core}" / "topology" / "thread_siblings_list").read_text()
        return int(siblings.replace("-", ",").split(",")[0])
    return core
