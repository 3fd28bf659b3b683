"""What an output is compared with: the baseline, over the batch in parts where it must be, or the oracle."""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from harness.drawing import Drawn, free_memory
from harness.oracle import SCORES, full_float32, walk
from harness.serving import is_out_of_memory

Part = tuple[slice, Tensor]  # rows of the batch, and the reference for them

USABLE_SHARE = (
    0.8  # of the free memory; what a part takes is estimated, and allocators lose some to fragments
)
MOST_SCORES = 1 << 30  # more makes the oracle no faster, and leaves out fewer of the keys that are not seen
_BYTES_PER_SCORE = 32  # of free memory: three copies of a block's scores, and room for all else


def by_baseline(drawn: Drawn, x: Tensor, mask: Tensor) -> Iterator[Part]:
    """Yield the baseline's output over x [B,S,D]: in one part, as the contest does, or in what memory allows.

    Raises what a single row of the batch raises.
    """
    rows, start = _rows_that_fit(drawn, x), 0
    while start < len(x):
        part = slice(start, min(start + rows, len(x)))
        reference = _unless_out_of_memory(drawn.baseline, x[part], mask[part], rows > 1)
        if reference is None:  # the error, and what its traceback holds, is gone by now
            rows = -(-rows // 2)
            free_memory(x.device)
            continue
        yield part, reference
        start = part.stop


def _unless_out_of_memory(model: nn.Module, x: Tensor, mask: Tensor, may_fail: bool) -> Tensor | None:
    try:
        output: Tensor = model(x, mask)
    except (RuntimeError, MemoryError) as error:
        if may_fail and is_out_of_memory(error):
            return None
        raise
    return output


def _rows_that_fit(drawn: Drawn, x: Tensor) -> int:
    """How many sequences the baseline takes at once, by what it holds at its worst moment."""
    shape = drawn.case.shape
    room = free_bytes(x.device) * USABLE_SHARE - x.numel() * x.element_size()
    return min(len(x), max(1, int(room // shape.baseline_bytes(1))))


def by_oracle(drawn: Drawn, x: Tensor, mask: Tensor, seed: int, seconds: float) -> Iterator[Part]:
    """Yield the oracle's output a sequence at a time, in an order drawn by the seed, while time allows.

    One sequence always comes; another only if it would be done in time. Float32 is never TF32.
    """
    shape, weights = drawn.case.shape, drawn.baseline.state_dict()
    scores = min(MOST_SCORES, max(SCORES, free_bytes(x.device) // _BYTES_PER_SCORE))
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed)).tolist()
    begin = time.monotonic()
    for done, row in enumerate(order):
        spent = time.monotonic() - begin
        if done and spent + spent / done > seconds:
            return
        part = slice(row, row + 1)
        with full_float32():
            reference = walk(weights, x[part], mask[part], shape.heads, shape.causal, scores)
        yield part, reference


def in_float32(drawn: Drawn) -> Drawn:
    """Return the same with the baseline in float32; its weights stay as they were rounded to the dtype."""
    return replace(drawn, baseline=copy.deepcopy(drawn.baseline).float())


def free_bytes(device: torch.device) -> int:
    """Return the bytes that can still be had on the device; where nobody knows, more than there can be."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    meminfo = Path("/proc/meminfo")
    if not meminfo.exists():
        return sys.maxsize
    fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
    return int(fields["MemAvailable"].split()[0]) * 1024
