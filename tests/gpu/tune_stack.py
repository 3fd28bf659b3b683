"""Measure cuts of the op `stack` on this GPU, to settle `stack.cut` by: `python -m tests.gpu.tune_stack`.

Compiles all candidates in parallel first (the variants land in Triton's cache), then measures, the most
promising first, until the time is up. One JSON line a measurement on stdout; the best of each at the end.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import torch
from torch import Tensor

from harness.baseline import TransformerConfig
from harness.sizes import OFFICIAL, Shape
from model.ops import stack
from model.packing import pack
from model.precision import NAMED
from tests.device.stack_cases import loaded
from tests.gpu.event_times import times_us

Job = tuple[Shape, str, stack.Tuning]

BASE = stack.Tuning()
FEW = BASE._replace(block_m=16, together=4, qkv_chunk=128, ffn_chunk=64, stages=3)
# The first to be tried first; what is too large for a shape is left out.
BLOCKS = (
    BASE,
    FEW,
    FEW._replace(block_m=32, warps=8),
    BASE._replace(block_m=64, stages=3),
    BASE._replace(block_m=128, warps=8),
    FEW._replace(warps=8),
    FEW._replace(block_m=32, qkv_chunk=64, ffn_chunk=32, stages=2),
    BASE._replace(block_m=64, warps=8),
    BASE._replace(block_m=32),
    BASE._replace(block_m=128, warps=8, stages=3, qkv_chunk=32),
)
# Each changes one thing of the best block.
VARIANTS: tuple[dict[str, int | bool], ...] = (
    {"stages": 1},
    {"stages": 2},
    {"stages": 3},
    {"stages": 4},
    {"block_n": 32},
    {"block_n": 128},
    {"ffn_chunk": 32},
    {"ffn_chunk": 64},
    {"ffn_chunk": 128},
    {"qkv_chunk": 32},
    {"qkv_chunk": 64},
    {"qkv_chunk": 128},
    {"together": 1},
    {"together": 2},
    {"together": 8},
    {"one_launch": False},
)


def config_of(shape: Shape) -> TransformerConfig:
    """The contest's configuration of a shape."""
    return TransformerConfig(
        shape.batch, shape.seq_len, shape.d_model, shape.heads, shape.ffn_dim, shape.layers, shape.causal
    )


def first_cuts(shape: Shape) -> Iterator[stack.Tuning]:
    """The cuts that differ in their block: of less than twice the rows of the sequence, and not too many."""
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    for tuning in BLOCKS:
        blocks = -(-shape.seq_len // tuning.block_m)
        too_many = shape.batch * blocks > 16 * processors and tuning.block_m < 64
        if tuning.block_m < 2 * shape.seq_len and not too_many:
            yield tuning._replace(one_launch=blocks <= processors)


def variants(best: stack.Tuning) -> Iterator[stack.Tuning]:
    """What differs from the best in one thing."""
    for change in VARIANTS:
        variant = stack.Tuning(**{**best._asdict(), **change})
        if variant != best:
            yield variant


def op_for(shape: Shape, precision: str) -> stack.Stack:
    """The op with weights on the GPU."""
    config = config_of(shape)
    packed = pack(
        loaded(config).cuda(), stack.padded_width(config.d_model), stack.padded_hidden(config.ffn_dim)
    )
    return stack.Stack(packed, config.d_model, config.causal, NAMED[precision])


def inputs_of(shape: Shape, batch: int) -> tuple[Tensor, Tensor]:
    """Input and mask as the contest's timer has them: the mask is always there, and all of it True."""
    size = batch, shape.seq_len
    return torch.randn(*size, shape.d_model, device="cuda"), torch.ones(size, dtype=torch.bool, device="cuda")


def compile_one(job: Job) -> str:
    """Run a job once, on few sequences, so that its variant lies in the cache; the error if it has one."""
    shape, precision, tuning = job
    x, valid = inputs_of(shape, min(shape.batch, 4))
    try:
        op_for(shape, precision)(x, valid, tuning)
        torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001 - a cut that does not compile is a result, too
        return f"{type(error).__name__}: {error}"[:200]
    return ""


def measure(job: Job) -> float:
    """The median of a job's calls in microseconds."""
    shape, precision, tuning = job
    op, (x, valid) = op_for(shape, precision), inputs_of(shape, shape.batch)
    first = statistics.median(times_us(lambda: op(x, valid, tuning), 3))
    calls = int(min(max(5e4 / first, 5), 100))
    return statistics.median(times_us(lambda: op(x, valid, tuning), calls))


def sweep(jobs: list[Job], until: float, processes: int) -> dict[Job, float]:
    """Compile all, then measure one after the other until the time is up."""
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        errors = dict(zip(jobs, pool.map(compile_one, jobs), strict=True))
    found: dict[Job, float] = {}
    for job in jobs:
        shape, precision, tuning = job
        line: dict[str, object] = {"shape": shape.key, "precision": precision, **tuning._asdict()}
        if errors[job]:
            line["error"] = errors[job]
        elif time.monotonic() < until:
            found[job] = line["median_us"] = round(measure(job), 2)
        print(json.dumps(line), flush=True)
    return found


def best_of(found: dict[Job, float]) -> dict[tuple[Shape, str], tuple[stack.Tuning, float]]:
    """The fastest cut of each shape and precision."""
    best: dict[tuple[Shape, str], tuple[stack.Tuning, float]] = {}
    for (shape, precision, tuning), median_us in found.items():
        if (shape, precision) not in best or median_us < best[shape, precision][1]:
            best[shape, precision] = tuning, median_us
    return best


def main() -> int:
    """Two sweeps: over blocks, then over what else there is to change of the best block."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", default="s01,s02,s03,s06,s07,s11,s13", help="keys of official shapes")
    parser.add_argument("--precisions", default="safe,fp16")
    parser.add_argument("--seconds", type=float, default=240.0, help="when to stop measuring")
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    asked = parser.parse_args()
    until = time.monotonic() + asked.seconds
    shapes = [shape for shape in OFFICIAL if shape.key in asked.shapes.split(",")]
    pairs = [(shape, precision) for precision in asked.precisions.split(",") for shape in shapes]
    found = sweep(
        [(*pair, tuning) for pair in pairs for tuning in first_cuts(pair[0])], until, asked.processes
    )
    best = best_of(found)
    more = [(*pair, tuning) for pair in best for tuning in variants(best[pair][0])]
    found |= sweep([job for job in more if job not in found], until, asked.processes)
    for (shape, precision), (tuning, median_us) in best_of(found).items():
        print(f"{shape.key} {precision}: {median_us:.1f} us, {tuning}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
