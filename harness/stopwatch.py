"""How one call is timed under `strict`: cold caches, and a device that does not wait for the host.

On CUDA a call is enqueued like this, all of it on one stream:

    spin | flush | start event | the call | end event | copy of the output

The flush writes over the whole second-level cache. While the device spins, the host enqueues the rest, so
the pair of events holds the device's work for the call and not the host's launches. Where the call itself
waits for the device, or takes the host longer than the spin, the host's time is in the pair again, and the
call is counted as late.

A candidate can replace what it finds in torch's modules. What this module needs is therefore taken when it is
imported, before there is a candidate, and from torch's C classes, which Python code cannot alter.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from harness.serving import RefusedError

Call = Callable[[], Tensor]

now_ns = time.perf_counter_ns  # for its users, too, to take at import
_CudaEvent: Any = getattr(torch._C, "_CudaEventBase", None)
_cuda_sleep: Any = getattr(torch._C, "_cuda_sleep", None)
_cuda_synchronize: Any = getattr(torch._C, "_cuda_synchronize", None)
_on_stream = torch.cuda.stream

_UNKNOWN_CACHE = 32 << 20
_MOST_FLUSHED = 64 << 20  # on a CPU, where writing costs more than most calls
_CALIBRATION_CYCLES = 2_000_000
_SHORTEST_SPIN_MS = 0.1
_LONGEST_SPIN_MS = 10.0
_LEARNING_CALLS = 3

T = TypeVar("T")


class Notes(Generic[T]):
    """What was noted, in order, with a sum that shows whether somebody has altered it since.

    `key` is what must stay the same of a note.
    """

    def __init__(self, key: Callable[[T], object]) -> None:
        self._key = key
        self._noted: list[T] = []
        self._sum = 0

    def add(self, note: T) -> None:
        """Note it."""
        self._noted.append(note)
        self._sum = hash((self._sum, self._key(note)))

    def taken(self) -> list[T]:
        """Return what was noted since the last call of this; RefusedError if it is not what was noted."""
        noted, total, self._noted, self._sum = self._noted, self._sum, [], 0
        again = 0
        for note in noted:
            again = hash((again, self._key(note)))
        if again != total:
            words = "the stopwatch's notes are not what it has noted"
            raise RefusedError("disqualified", "altered_times", words)
        return noted


def _same(ns: int) -> int:
    return ns


def _identities(pair: tuple[Any, Any]) -> tuple[int, int]:
    return id(pair[0]), id(pair[1])


class HostWatch:
    """Times calls on a CPU by its clock, each after a write over the last-level cache."""

    def __init__(self) -> None:
        self._flushed = torch.zeros(min(2 * _last_level_cache(), _MOST_FLUSHED) // 4, dtype=torch.float32)
        self._notes = Notes(_same)

    def wait(self) -> None:
        """Wait for the device: there is none to wait for."""

    def stream(self) -> AbstractContextManager[object]:
        """Return where calls are to be enqueued: there is one place only."""
        return contextlib.nullcontext()

    def learn(self, call: Call) -> None:
        """Nothing is to be learned of a call: its host is the device."""

    def time(self, call: Call) -> tuple[Tensor, bool]:
        """Return the call's output, and that the host's time is not at issue."""
        self._flushed.add_(1.0)
        start = now_ns()
        output = call()
        self._notes.add(now_ns() - start)
        return output, False

    def taken(self) -> list[int]:
        """Return the times since the last call of this, in nanoseconds, in order."""
        return self._notes.taken()

    def span(self, calls: Callable[[], None]) -> int:
        """Return how long several calls in a row take, in nanoseconds."""
        start = now_ns()
        calls()
        return now_ns() - start


class CudaWatch:
    """Times calls on the current CUDA device, on the stream that is current now."""

    def __init__(self, device: torch.device) -> None:
        cache = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0) or _UNKNOWN_CACHE
        self._flushed = torch.zeros(2 * cache // 4, dtype=torch.float32, device=device)
        self._stream = torch.cuda.current_stream(device)
        self._notes = Notes(_identities)
        self._spin_ms = _SHORTEST_SPIN_MS
        self._cycles_per_ms = self._calibrated()

    def _calibrated(self) -> float:
        """Spin twice, the first time to warm up, and see how long it takes."""
        ms = 1.0
        for _ in range(2):
            start, end = _event(), _event()
            start.record(self._stream)
            _cuda_sleep(_CALIBRATION_CYCLES)
            end.record(self._stream)
            _cuda_synchronize()
            ms = start.elapsed_time(end)
        return float(_CALIBRATION_CYCLES / max(ms, 1e-3))

    def wait(self) -> None:
        """Wait for all that the device has to do, on all streams."""
        _cuda_synchronize()

    def stream(self) -> AbstractContextManager[object]:
        """Return a context in which the stream of the timing is the current one, whoever has changed it."""
        return _on_stream(self._stream)

    def learn(self, call: Call) -> None:
        """Call a few times in `stream()`; from now on the spin outlasts the host's work for it, in bounds."""
        host_ms = []
        for _ in range(_LEARNING_CALLS):
            self.wait()
            start = now_ns()
            call()
            host_ms.append((now_ns() - start) / 1e6)
        self.wait()
        self._spin_ms = min(max(self._spin_ms, 1.5 * sorted(host_ms)[_LEARNING_CALLS // 2]), _LONGEST_SPIN_MS)

    def time(self, call: Call) -> tuple[Tensor, bool]:
        """Return the output of a call in `stream()`, and whether the device may have waited for the host."""
        start, end = _event(), _event()
        _cuda_sleep(int(self._spin_ms * self._cycles_per_ms))
        self._flushed.add_(1.0)
        start.record(self._stream)
        output = call()
        is_late = bool(start.query())
        end.record(self._stream)
        self._notes.add((start, end))
        return output, is_late

    def taken(self) -> list[int]:
        """Wait, and return the times since the last call of this, in nanoseconds, in order."""
        self.wait()
        return [round(start.elapsed_time(end) * 1e6) for start, end in self._notes.taken()]

    def span(self, calls: Callable[[], None]) -> int:
        """Return the time between events around several calls in a row in `stream()`, in nanoseconds."""
        start, end = _event(), _event()
        self.wait()
        start.record(self._stream)
        calls()
        end.record(self._stream)
        self.wait()
        return int(start.elapsed_time(end) * 1e6)


Watch = HostWatch | CudaWatch


def watch_of(device: torch.device) -> Watch:
    """Return how calls on the device are timed."""
    return CudaWatch(device) if device.type == "cuda" else HostWatch()


def _event() -> Any:
    return _CudaEvent(enable_timing=True, blocking=False, interprocess=False)


def _last_level_cache() -> int:
    """Return the bytes of the largest cache of the first core."""
    sizes = [_UNKNOWN_CACHE // 4]
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text(encoding="ascii").strip()
        if text.endswith("K") and text[:-1].isdecimal():
            sizes.append(int(text[:-1]) << 10)
    return max(sizes)
