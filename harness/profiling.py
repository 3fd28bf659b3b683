"""A look at what the device is busy with during a few calls, by torch's profiler."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.profiler import profile

from harness.events import Work

# Spans that CUPTI reports among the kernels and that keep no part of the device busy.
_WAITS = ("Stream Wait Event", "Stream Sync", "Event Sync", "Context Sync")


@dataclass(frozen=True)
class Seen:
    """What `calls` calls did. `busy_ns`: how long the device worked in all, overlaps once; 0 on a CPU.

    `work` is sorted, the longest first. `graph_launches`: how many CUDA graphs were launched.
    """

    calls: int
    work: tuple[Work, ...]
    busy_ns: int = 0
    graph_launches: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The kernels' or operators' names."""
        return tuple(work.name for work in self.work)

    @property
    def busy_ms(self) -> float:
        """How long the device works for one call, in milliseconds."""
        return self.busy_ns / self.calls / 1e6


def watch(call: Callable[[], object], calls: int, device: torch.device) -> Seen:
    """Call `calls` times under the profiler.

    On a GPU only the device and CUDA's own functions are traced: kernels take the time they take otherwise.
    """
    on_gpu = device.type == "cuda"
    with torch.inference_mode(), _profiler(on_gpu) as profiler:
        for _ in range(calls):
            call()
        if on_gpu:
            torch.cuda.synchronize(device)
    events: list[Any] = list(profiler.function_events or ())
    return of_kernels(events, calls) if on_gpu else of_operators(events, calls)


def _profiler(on_gpu: bool) -> profile:
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else it writes into the log when it starts and stops
    # Not torch.profiler: to make one imports the compiler, which takes seconds.
    return profile(use_cpu=not on_gpu, use_device="cuda" if on_gpu else None, use_kineto=True)


def of_kernels(events: Iterable[Any], calls: int) -> Seen:
    """Sum up torch's events of a GPU: kernels, copies and fills, and launches of graphs."""
    spans: list[tuple[float, float]] = []
    counts: Counter[str] = Counter()
    micros: Counter[str] = Counter()
    launches = 0
    for event in events:
        if event.device_type.name == "CPU":
            launches += event.name.startswith("cudaGraphLaunch")
        elif event.name not in _WAITS and not getattr(event, "is_user_annotation", False):
            spans.append((event.time_range.start, event.time_range.end))
            counts[event.name] += 1
            micros[event.name] += event.time_range.end - event.time_range.start
    return Seen(calls, _sorted(counts, micros), round(covered(spans) * 1e3), launches)


def of_operators(events: Iterable[Any], calls: int) -> Seen:
    """Sum up torch's events of a CPU."""
    counts: Counter[str] = Counter()
    micros: Counter[str] = Counter()
    for event in events:
        counts[event.name] += 1
        micros[event.name] += event.self_cpu_time_total
    return Seen(calls, _sorted(counts, micros))


def _sorted(counts: Counter[str], micros: Counter[str]) -> tuple[Work, ...]:
    return tuple(Work(name, counts[name], round(spent * 1e3)) for name, spent in micros.most_common())


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return the length of the union of spans (start, end)."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
