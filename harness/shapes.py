"""What is measured: shapes, suites, settings and cases. Standard library only; the host imports this module.

A shape is one row of a table; a suite names shapes and how they are run; a case is
shape x route x levers x dtype x protocol and has the same id in every run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import NoReturn

from harness.sizes import DTYPE_BYTES as DTYPE_BYTES
from harness.sizes import OFFICIAL as OFFICIAL
from harness.sizes import OFFICIAL_SMALL as OFFICIAL_SMALL
from harness.sizes import SHAPES as SHAPES
from harness.sizes import STRESS as STRESS
from harness.sizes import TINY as TINY
from harness.sizes import Shape as Shape

# These routes choose among the others; any other route was asked for by its own name and must run as asked.
CHOOSING_ROUTES = frozenset({"auto", "safe", "fast", "fp16"})

# Under these a case is the only one that its worker serves; `short` is `official` with other counts.
FRESH_WORKER = frozenset({"official", "strict"})
PROTOCOLS = ("official", "strict")


@dataclass(frozen=True)
class Counts:
    """Timed calls: `warmup` calls a side, then `rounds` rounds of `repeats` calls a side."""

    warmup: int = 20
    repeats: int = 100
    rounds: int = 3

    def shortened(self, shape: Shape) -> Counts:
        """Shape 14 is timed short (1 warm-up, 3 calls): one call takes seconds."""
        return Counts(1, 3, 1) if shape.key == "s14" else self


OFFICIAL_COUNTS = Counts()


# For all outputs of a case that are held against the oracle; the whole of shape 14 takes an H200 minutes.
ORACLE_S = 900.0

# The timing's input differs from every input of the gate.
TIMING_SEED_OFFSET = 100_000


@dataclass(frozen=True)
class Settings:
    """The options of the contest's script that are no part of a case, with its defaults."""

    seed: int = 1234
    accuracy_trials: int = 5
    input_scale: float = 1.0
    rtol: float = 0.02
    atol: float = 0.002
    matmul_precision: str = "high"
    allow_tf32: bool = True
    non_strict_weight_copy: bool = False


def settings_parser() -> argparse.ArgumentParser:
    """The contest script's options that `Settings` holds; the whole script's parser extends it."""
    parser = argparse.ArgumentParser(prog="--harness-args", add_help=False)
    parser.add_argument("--seed", type=int, default=Settings.seed)
    parser.add_argument("--accuracy-trials", type=int, default=Settings.accuracy_trials)
    parser.add_argument("--input-scale", type=float, default=Settings.input_scale)
    parser.add_argument("--rtol", type=float, default=Settings.rtol)
    parser.add_argument("--atol", type=float, default=Settings.atol)
    parser.add_argument(
        "--matmul-precision", choices=("highest", "high", "medium"), default=Settings.matmul_precision
    )
    parser.add_argument("--allow-tf32", action=argparse.BooleanOptionalAction, default=Settings.allow_tf32)
    parser.add_argument("--non-strict-weight-copy", action="store_true")
    return parser


def parse_settings(args: Sequence[str]) -> Settings:
    """Turn `--harness-args` into `Settings`.

    Raises ValueError for what is no option of the script's, and for values with which the gate means nothing.
    """
    parser = settings_parser()
    parser.error = _raise  # type: ignore[method-assign]
    settings = settings_of(parser.parse_args(args))
    if settings.accuracy_trials < 1:
        raise ValueError("argument --accuracy-trials: must be positive")
    for name in ("rtol", "atol"):
        if not 0 <= getattr(settings, name) < math.inf:
            raise ValueError(f"argument --{name}: must be a number from 0 on")
    return settings


def _raise(message: str) -> NoReturn:
    raise ValueError(message)


def settings_of(parsed: argparse.Namespace) -> Settings:
    """Take the `Settings` out of what `settings_parser`, or a parser that extends it, has read."""
    return Settings(**{f.name: getattr(parsed, f.name) for f in fields(Settings)})


@dataclass(frozen=True)
class Case:
    """One thing to measure. Its id is the same in every run and on every machine."""

    shape: Shape
    route: str = "auto"
    levers: dict[str, str] = field(default_factory=dict)
    dtype: str = "float32"
    protocol: str = "official"
    counts: Counts = OFFICIAL_COUNTS
    harness_args: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """`s08-sdpa-float32-official-<6 hex>`; the hex covers levers and, if any, harness arguments."""
        text = json.dumps([sorted(self.levers.items()), *self.harness_args])
        levers = hashlib.sha256(text.encode()).hexdigest()[:6]
        return f"{self.shape.key}-{self.route}-{self.dtype}-{self.protocol}-{levers}"


# Sustained on a T4, fitted to its published times of the baseline on shapes 6, 8 and 13 (within 1.5 x).
_FLOPS, _BYTES_PER_S, _MEMORY_BYTES = 5.7e12, 256e9, 16 * 10**9
_HOST_S_PER_LAYER = 36 * 12e-6  # that many operations a layer, each at its price on the host
_START_S = 15.0  # two processes that import torch and meet a card
_PASSES, _SCORE_PASSES = 30, 17  # how often a layer reads or writes an activation [B,S,D], a score [B,H,S,S]


def call_cost_s(shape: Shape, scores: bool = True) -> float:
    """Estimate the seconds of one forward of the baseline in float32 on a T4: the larger of host and card.

    Card: L·(8·T·D² + 4·T·D·F + 4·T·S·D) operations with T = B·S, and L·4·(30·T·D + 17·B·H·S²) bytes; the
    latter term is left out for a model that keeps no `scores` in memory.
    """
    tokens, width = shape.tokens, shape.d_model
    flop = tokens * width * (8 * width + 4 * shape.ffn_dim + 4 * shape.seq_len)
    elements = _PASSES * tokens * width + scores * _SCORE_PASSES * tokens * shape.heads * shape.seq_len
    return shape.layers * max(flop / _FLOPS + 4 * elements / _BYTES_PER_S, _HOST_S_PER_LAYER)


def cost_s(case: Case, seeds: int = 1) -> float:
    """Estimate the seconds that a case takes on a T4, its processes' start included; both sides cost alike.

    The gate calls each side once an input and weight seed; then come the warm and the timed calls. Where the
    baseline has no room, the oracle takes its time, and the candidate alone is called: at the same operations
    but for those that causality spares, and without the scores. What does not fit at all is refused at once.
    """
    shape, counts = case.shape, case.counts.shortened(case.shape)
    calls = counts.warmup + counts.rounds * counts.repeats
    if shape.io_bytes(case.dtype) > _MEMORY_BYTES:
        return 0.0
    if not shape.has_baseline(_MEMORY_BYTES):
        flop = shape.tokens * shape.d_model * (8 * shape.d_model + 4 * shape.ffn_dim + 2 * shape.seq_len)
        return _START_S + ORACLE_S + (seeds + calls) * shape.layers * flop / _FLOPS
    gate = seeds * parse_settings(case.harness_args).accuracy_trials
    return _START_S + 2 * (gate + calls) * call_cost_s(shape)


def parse_duration(text: str) -> float:
    """Turn `90s`, `9m`, `1.5h` or plain seconds into seconds. Raises ValueError for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no duration: write 90s, 9m, 1.5h or plain seconds")
    return float(match[1]) * {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}[match[2]]


@dataclass(frozen=True)
class Extra:
    """One more row of a suite, outside its product; an empty route stands for each of the suite's."""

    shape: str
    route: str = ""
    dtype: str = "float32"
    levers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    """A named list of cases: shapes x routes x lever settings in float32, and the extra rows.

    What the command line says of routes, levers, dtype and counts goes before what stands here.
    """

    name: str
    about: str
    shapes: tuple[Shape, ...]
    routes: tuple[str, ...] = ("auto",)
    lever_settings: tuple[dict[str, str], ...] = ({},)
    counts: Counts = OFFICIAL_COUNTS
    extras: tuple[Extra, ...] = ()


_ABLATED = ("s01", "s07", "s08", "s13")

SUITES = {
    suite.name: suite
    for suite in (
        Suite(
            "smoke",
            "small, every code path; a minute on two cores",
            TINY,
            routes=("eager", "sdpa"),
            counts=Counts(1, 5, 2),
            # compiling takes ten seconds a shape; not by its own name, as not every machine has a compiler
            extras=(Extra("t03", "fast"), Extra("t05", "sdpa", levers={"LEVER_CHUNK": "3"})),
        ),
        Suite(
            "official",
            "the contest's 14 shapes, and shape 14 in float16",
            OFFICIAL,
            extras=(Extra("s14", dtype="float16"),),
        ),
        Suite("official-small", "the 14 shapes scaled to a CPU", OFFICIAL_SMALL, counts=Counts(3, 20, 3)),
        Suite(
            "ablation",
            "every route, and every lever under the route that it changes, on 4 official shapes",
            tuple(SHAPES[key] for key in _ABLATED),
            routes=("eager", "sdpa", "compiled", "reduce", "fused", "graphed", "amp", "chunked", "wide"),
            extras=tuple(
                Extra(key, route, levers=levers)
                for route, levers in (
                    ("sdpa", {"LEVER_QKV": "separate"}),
                    ("sdpa", {"LEVER_RESIDUAL": "new"}),
                    ("sdpa", {"LEVER_CHUNK": "16"}),
                    ("stack", {}),
                    ("stack", {"LEVER_PRECISION": "fast"}),
                    ("stack", {"LEVER_PRECISION": "fp16"}),
                    ("wide", {"LEVER_PRECISION": "fast"}),
                    ("wide", {"LEVER_PRECISION": "fp16"}),
                    ("wide", {"LEVER_PRODUCTS": "cublas"}),
                    ("wide", {"LEVER_PRECISION": "fp16", "LEVER_PRODUCTS": "cublas"}),
                    ("wide", {"LEVER_PRECISION": "fp16", "LEVER_ATTENTION": "torch"}),
                    ("wide", {"LEVER_GRAPH": "on"}),
                    ("cuda", {}),
                    ("cuda", {"LEVER_PRECISION": "fp16"}),
                    ("cuda", {"LEVER_TOKENS": "128"}),
                )
                for key in _ABLATED
                if (route, key) != ("stack", "s08")
            ),
        ),
        Suite(
            "stress",
            "padding, odd sizes, hard inputs, half precision",
            STRESS,
            counts=Counts(2, 10, 2),
            extras=tuple(
                Extra(key, dtype=dtype)
                for dtype in ("float16", "bfloat16")
                for key in ("x03", "x09", "x17", "x18", "x19", "x20", "x21")
            ),
        ),
    )
}
