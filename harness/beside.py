"""What goes on in the worker while its baseline is called, besides the call: seen by counts, not by times.

Python threads of the candidate's that work then, and memory that the baseline has to get from the device
again, call after call, because somebody has given back what torch's allocator held.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from harness.company import Threads
from harness.serving import RefusedError

_memory_stats: Any = getattr(torch._C, "_cuda_memoryStats", None)
_FEWEST = 8  # calls, before their counts mean anything
_MOST_SHARE = 0.5  # of the calls may get memory from the device: an allocator that is left alone needs none


class Beside:
    """Watches the baseline's calls of one case."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._threads = Threads()
        self._calls = self._emptied = 0

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Watch one call of the baseline."""
        gotten, retried = device_allocations(self._device)
        self._threads.begin()
        yield
        self._threads.end()
        now, retried_now = device_allocations(self._device)
        self._calls += 1
        self._emptied += now > gotten and retried_now == retried  # a full card makes anybody ask again

    def refuse(self) -> None:
        """Raise RefusedError, `disqualified`, when the calls were not left alone."""
        if words := self._threads.complaint():
            raise RefusedError("disqualified", "helpers", words)
        if self._calls >= _FEWEST and self._emptied > _MOST_SHARE * self._calls:
            words = (
                f"in {self._emptied} of {self._calls} calls the baseline had to get memory from the device: "
                "the candidate gives back what torch's allocator holds"
            )
            raise RefusedError("disqualified", "emptied_memory", words)


def device_allocations(device: torch.device) -> tuple[int, int]:
    """Return how often torch got memory from the device, and how often only after giving back what it had."""
    if device.type != "cuda" or _memory_stats is None:
        return 0, 0
    stats = _memory_stats(device.index or 0)
    return int(stats.get("num_device_alloc", 0)), int(stats.get("num_alloc_retries", 0))
