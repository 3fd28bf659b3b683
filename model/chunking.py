"""Running a batch in chunks when it does not fit: planned from free memory, halved on failure.

A chunk is some rows of the batch, or, where not even one row fits and the route can, one row whose sequence
runs in parts. Rows do not see each other, and parts see what the whole sequence holds, so chunks change
nothing where the same kernels run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

# The estimate of a route's bytes is no measurement, and allocators lose some to fragments.
USABLE_SHARE = 0.9
COUNTABLE = 2**31 - 1
STEP = 128  # parts of a sequence are multiples: of the queries that any op attends with at once

_OUT_OF_MEMORY = ("out of memory", "DefaultCPUAllocator", "CUBLAS_STATUS_ALLOC_FAILED")


class Parts(NamedTuple):
    """Bytes of a row that runs in parts: for each token of it, and for each token of the part at work."""

    held: int
    work: int


class Piece(NamedTuple):
    """What runs at once: rows of the batch, of each so many tokens; `least`: fewer tokens cannot."""

    rows: int
    tokens: int
    least: int

    def halved(self) -> Piece | None:
        """The next smaller piece, None where there is none."""
        if self.rows > 1:
            return self._replace(rows=-(-self.rows // 2))
        if self.tokens <= self.least:
            return None
        return self._replace(tokens=max(stepped(-(-self.tokens // 2)), self.least))


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


def plan_tokens(seq_len: int, parts: Parts, output_bytes: int, free: int) -> int:
    """Tokens of a part: the output, what is held for the row, and one part's work fit in `free` bytes.

    Parts are evened out, and multiples of STEP unless there is but one.
    """
    room = int(free * USABLE_SHARE) - output_bytes - seq_len * parts.held
    most = max(room // max(parts.work, 1), STEP)
    if most >= seq_len:
        return seq_len
    count = -(-seq_len // (most // STEP * STEP))
    return stepped(-(-seq_len // count))


def plan(
    batch: int,
    seq_len: int,
    row_bytes: int,
    parts: Parts | None,
    output_bytes: int,
    free: int,
    element_bytes: int,
) -> Piece:
    """What runs at once: as many rows as fit in `free` bytes beside the output, or a part of one."""
    rows = plan_rows(batch, row_bytes, output_bytes, free, element_bytes)
    if parts is None:
        return Piece(rows, seq_len, seq_len)
    fits = row_bytes <= int(free * USABLE_SHARE) - output_bytes
    tokens = seq_len if rows > 1 or fits else plan_tokens(seq_len, parts, output_bytes, free)
    return Piece(rows, tokens, min(STEP, seq_len))


def stepped(tokens: int) -> int:
    """The next multiple of STEP."""
    return -(-tokens // STEP) * STEP


def run_in_chunks(run: Callable[[int, int, int], Tensor], x: Tensor, piece: Piece) -> tuple[Tensor, Piece]:
    """The output [B,S,D] of `run(start, stop, tokens)` over all rows of x, and the piece that fitted.

    Out of memory: starts again with half the rows, or half the tokens of one. Raises what the least raises.
    """
    while True:
        try:
            return _fill(run, x, piece), piece
        except (RuntimeError, MemoryError) as error:
            smaller = piece.halved()
            if smaller is None or not is_out_of_memory(error):
                raise
        # Outside the handler: the error, and the tensors its traceback holds, are gone.
        piece = smaller
        if x.is_cuda:
            torch.cuda.empty_cache()


def _fill(run: Callable[[int, int, int], Tensor], x: Tensor, piece: Piece) -> Tensor:
    batch, rows = x.shape[0], piece.rows
    if rows >= batch:
        return run(0, batch, piece.tokens)
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    for start in range(0, batch, rows):
        stop = min(start + rows, batch)
        output[start:stop] = run(start, stop, piece.tokens)
    return output


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: the GPU's, the CPU allocator's (a plain RuntimeError) or Python's."""
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _OUT_OF_MEMORY)
