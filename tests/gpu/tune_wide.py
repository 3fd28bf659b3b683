"""Measure cuts of the wide path's ops on this GPU: `python -m tests.gpu.tune_wide`.

Products of shapes 8 and 14, as halves and whole, by Triton in each cut and by cuBLAS; attention in each cut
and by torch. All candidates are compiled in parallel first, then measured, the most promising first, until
the time is up. One JSON line a measurement on stdout, with TFLOP/s of tensor-core work; the best of each
at the end, to settle `matmul.default_tiles`, `attention.default_walk` and the defaults of levers by.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from model.ops import library, matmul
from model.ops.attention import Heads, Walk, attention
from model.ops.matmul import Tiles, Weight
from model.ops.operand import Operand
from tests.gpu.event_times import times_us

FAR = Tiles(128, 256, 64, descriptors=True)
# The first to be tried first; for halves twice the shared memory is taken unless `ordered`.
TILES = (
    Tiles(128, 256, 32),
    Tiles(128, 128, 64),
    FAR,
    FAR._replace(ordered=True),
    FAR._replace(ordered=True, stages=4),
    FAR._replace(block_k=32, stages=4),
    Tiles(128, 128, 64, descriptors=True),
    Tiles(128, 128, 64, descriptors=True, persistent=True, stages=2),
    FAR._replace(persistent=True, ordered=True),
    Tiles(128, 256, 32, group_m=16),
    Tiles(256, 128, 32),
    Tiles(64, 256, 64, warps=4),
)
WALKS = (
    Walk(128, 64, 8, 3),
    Walk(128, 64, 8, 2),
    Walk(128, 128, 8, 2),
    Walk(64, 64, 4, 2),
    Walk(64, 64, 4, 3),
    Walk(64, 32, 4, 3),
    Walk(128, 32, 8, 2),
    Walk(128, 16, 8, 2),
    Walk(64, 16, 4, 2),
    Walk(64, 64, 8, 2),
)


class Job(NamedTuple):
    """What is measured: a product of [tokens,1024] to halves, with GELU, onto the residual, or attention.

    An attention has `tokens` in a sequence, so many sequences and heads. `cut` None: the library's.
    """

    name: str
    kind: str
    split: bool
    tokens: int
    columns: int = 1024
    batch: int = 1
    heads: int = 4
    cut: Tiles | Walk | None = None

    @property
    def tera(self) -> float:
        """Tensor-core operations of a call, in 10^12."""
        if self.kind == "attention":
            pairs = self.batch * self.tokens * (self.tokens + 1) / 2
            return (3 if self.split else 1) * 4 * pairs * 1024 * 1e-12
        return (3 if self.split else 1) * 2 * self.tokens * 1024 * self.columns * 1e-12


PLACES = (
    *(Job(f"s08 {kind}", kind, split, 8192, n) for split in (True, False) for kind, n in
      (("halves", 3072), ("residual", 1024), ("gelu", 1024))),
    *(Job("s08 attention", "attention", split, 128, batch=64) for split in (True, False)),
    *(Job("s14 attention", "attention", split, 32768, heads=16) for split in (True, False)),
    *(Job("s14 halves", "halves", split, 100_000, 3072) for split in (True, False)),
)  # fmt: skip


def candidates(place: Job) -> list[Job]:
    """The library first, where it serves, then every cut."""
    cuts: tuple[Tiles | Walk, ...] = WALKS if place.kind == "attention" else TILES
    whole = place.kind != "attention" or not place.split
    return [*([place] if whole else []), *(place._replace(cut=cut) for cut in cuts)]


def call_of(job: Job) -> Callable[[], object]:
    """The call with its operands on the GPU."""
    torch.manual_seed(1)
    return _attention(job) if job.kind == "attention" else _product(job)


def _operand(tokens: int, width: int, split: bool, tripled: bool = False) -> Operand:
    out = Operand.empty(tokens, width, split, tripled, torch.device("cuda"))
    out.memory.normal_()
    return out


def _product(job: Job) -> Callable[[], object]:
    by_library = job.cut is None
    op = library if by_library else matmul
    a = _operand(job.tokens, 1024, job.split, by_library)
    weight = Weight(torch.randn(1 + job.split, 1024, job.columns, device="cuda").half(), 1 / 32)
    weight = library.tripled(weight) if by_library else weight
    bias = torch.randn(job.columns, device="cuda")
    tiles = job.cut if isinstance(job.cut, Tiles) else None
    if job.kind == "residual":
        stream = torch.randn(job.tokens, job.columns, device="cuda")
        return lambda: op.to_residual(a, weight, bias, stream, stream, tiles)
    return lambda: op.to_operand(a, weight, bias, job.kind == "gelu", job.split, False, tiles)


def _attention(job: Job) -> Callable[[], object]:
    heads = Heads(job.heads, 1024 // job.heads)
    qkv = _operand(job.batch * job.tokens, 3072, job.split)
    if isinstance(job.cut, Walk):
        walk = job.cut
        return lambda: attention(qkv, heads, job.tokens, None, True, job.split, walk)
    q, k, v = qkv.memory[0].view(job.batch, job.tokens, 3, *heads).permute(2, 0, 3, 1, 4)
    return lambda: _by_torch(q, k, v)


def _by_torch(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=math.log(2.0))


def compile_one(job: Job) -> str:
    """Run a job once, so that it lies in the cache; the error if it has one."""
    try:
        call_of(job)()
        torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001 - a cut that does not compile is a result, too
        return f"{type(error).__name__}: {error}"[:200]
    return ""


def measure(job: Job) -> float:
    """The median of a job's calls in microseconds."""
    call = call_of(job)
    first = statistics.median(times_us(call, 3))
    return statistics.median(times_us(call, int(min(max(1e5 / first, 5), 100))))


def main() -> int:
    """Compile all, measure until the time is up, name the best of each place."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=240.0, help="when to stop measuring")
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    asked = parser.parse_args()
    until = time.monotonic() + asked.seconds
    jobs = [job for place in PLACES for job in candidates(place)]
    with ProcessPoolExecutor(asked.processes, multiprocessing.get_context("spawn")) as pool:
        errors = dict(zip(jobs, pool.map(compile_one, jobs), strict=True))
    best: dict[tuple[str, bool], tuple[float, Job]] = {}
    for job in jobs:
        line: dict[str, object] = {"place": job.name, "split": job.split, "cut": str(job.cut or "library")}
        if errors[job]:
            line["error"] = errors[job]
        elif time.monotonic() < until:
            found = measure(job)
            line |= {"median_us": round(found, 2), "tflops": round(job.tera / found * 1e6, 1)}
            place = job.name, job.split
            best[place] = min(best.get(place, (found, job)), (found, job), key=lambda each: each[0])
        print(json.dumps(line), flush=True)
    for (name, split), (found, job) in best.items():
        print(f"{name} {'halves' if split else 'whole'}: {found:.1f} us, {job.cut}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
