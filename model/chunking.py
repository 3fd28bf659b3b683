"""Running a batch in chunks of rows when it does not fit: planned from free memory, halved on failure.

Rows of a batch do not see each other, so chunks change nothing where the same kernels run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

# The estimate of a route's bytes is no measurement, and allocators lose some to fragments.
USABLE_SHARE = 0.9
COUNTABLE = 2**31 - 1

_OUT_OF_MEMORY = ("out of memory", "DefaultCPUAllocator", "CUBLAS_STATUS_ALLOC_FAILED")


def free_bytes(device: torch.device) -> int:
    """Bytes that can still be allocated: the driver's figure + what torch's allocator holds unused.

    On a CPU MemAvailable; where nobody knows, more than any machine has.
    """
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    meminfo = Path("/proc/meminfo")
    if device.type == "cpu" and meminfo.exists():
        fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        return int(fields["MemAvailable"].split()[0]) * 1024
    return sys.maxsize


def plan_rows(batch: int, row_bytes: int, output_bytes: int, free: int, element_bytes: int) -> int:
    """Rows of a chunk: the output and one chunk's work fit in `free` bytes; chunks are evened out.

    All of a chunk's elements, of `element_bytes`, can be counted in 32 bits, as some kernels do.
    """
    room = int(free * USABLE_SHARE) - output_bytes
    room = min(room, COUNTABLE * element_bytes)
    most = min(max(room // max(row_bytes, 1), 1), batch)
    chunks = -(-batch // most)
    return -(-batch // chunks)


def run_in_chunks(run: Callable[[int, int], Tensor], x: Tensor, rows: int) -> tuple[Tensor, int]:
    """The output [B,S,D] of `run(start, stop)` over all rows of x, and the rows of a chunk that fitted.

    Out of memory: starts again with half the rows. Raises what one row raises.
    """
    while True:
        try:
            return _fill(run, x, rows), rows
        except (RuntimeError, MemoryError) as error:
            if rows <= 1 or not is_out_of_memory(error):
                raise
        # Outside the handler: the error, and the tensors its traceback holds, are gone.
        rows = -(-rows // 2)
        if x.is_cuda:
            torch.cuda.empty_cache()


def _fill(run: Callable[[int, int], Tensor], x: Tensor, rows: int) -> Tensor:
    batch = x.shape[0]
    if rows >= batch:
        return run(0, batch)
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    for start in range(0, batch, rows):
        stop = min(start + rows, batch)
        output[start:stop] = run(start, stop)
    return output


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: the GPU's, the CPU allocator's (a plain RuntimeError) or Python's."""
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _OUT_OF_MEMORY)
