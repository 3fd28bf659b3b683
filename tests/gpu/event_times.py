"""Times of calls as the contest's timer takes them: a pair of events a call, no wait between calls."""

from __future__ import annotations

from collections.abc import Callable

import torch


def times_us(call: Callable[[], object], calls: int, warmup: int = 3) -> list[float]:
    """Microseconds of so many calls on the current stream."""
    for _ in range(warmup):
        call()
    torch.cuda.synchronize()
    pairs = [(_event(), _event()) for _ in range(calls)]
    for begin, end in pairs:
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) * 1e3 for begin, end in pairs]


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
