"""How long a call should take on a card, worked out from bytes and operations: an estimate, no measurement.

A route is a list of steps over row tensors of T·D elements (T = B·S), hidden ones of T·F and scores of
B·H·S². A step takes the longest of its bytes and its operations at the card's rates, and of its launches at
their least; a call takes the longer of its steps, one after the other on the device, and of its launches on
the host. `RATES` says where each rate is from, and `ferry compare --estimate RUN` how wrong all this is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from builder.roofline import CARDS
from harness.shapes import OFFICIAL, Case, Shape

SIDES = ("baseline", "sdpa", "safe", "fast")
_WORDS = {"memory": "memory", "arithmetic": "products", "attention": "attention", "host": "launches"}


@dataclass(frozen=True)
class Rates:
    """What a card reaches: operations and bytes a second by kind of work, and seconds of the host a launch.

    `product` and `attention` are by operands: float32 without tensor cores, tf32, split (three products of
    halves, counted once), half. `eager` is for torch's passes over tensors, `fused` for kernels of our own.
    """

    product: dict[str, float]
    attention: dict[str, float]
    eager: float
    fused: float
    launch_s: float
    replay_s: float


# H200. Products: measured, by cuBLAS: 8192³ in float32 and TF32, shape 8's own in halves, tripled and whole.
# Attention: torch's, measured at B64 H4 S1024 d32, counted causally. `fused`: a measured copy. `replay_s`: a
# graph's, measured. `eager`, half of the peak of 4.8 TB/s, and `launch_s`: fitted to shapes 6, 13 and 2 of
# the first published run.
# T4. Products: others' published SGEMM (3.92 ms) and tripled product (1.26 ms) of 8192×3072×1024. `eager`,
# `fused` and attention: the H200's shares of the peaks (320 GB/s; 8.1 TFLOP/s in float32, 65 in halves).
# `launch_s`: others' published baseline of shape 2 (3.39 ms) over its launches; `replay_s` slower by as much.
RATES = {
    "H200": Rates(
        {"float32": 51e12, "tf32": 404e12, "split": 236e12, "half": 537e12},
        {"float32": 17.4e12, "tf32": 17.4e12, "split": 49e12, "half": 147e12},
        2.4e12,
        4.3e12,
        19e-6,
        25e-6,
    ),
    "Tesla T4": Rates(
        {"float32": 4.4e12, "tf32": 4.4e12, "split": 13.6e12, "half": 40.9e12},
        {"float32": 2.1e12, "tf32": 2.1e12, "split": 3.2e12, "half": 9.7e12},
        160e9,
        288e9,
        36e-6,
        47e-6,
    ),
}


@dataclass(frozen=True)
class Step:
    """Part of a layer: bytes that it moves, operations, of what kind, and how many launches it is."""

    bytes: float
    operations: float = 0.0
    kind: str = "memory"
    launches: int = 1


@dataclass(frozen=True)
class Estimate:
    """A call's milliseconds, and what takes most of them: memory, products, attention or launches."""

    ms: float
    bound: str


def rates_of(device: str) -> tuple[str, Rates] | None:
    """Return the card that a device's name tells and its rates, or None: of others nothing is estimated."""
    words = set(device.split())
    return next(((name, rates) for name, rates in RATES.items() if set(name.split()) <= words), None)


def estimate(shape: Shape, device: str, side: str, tf32: bool = False) -> Estimate | None:
    """Return how long a call should take; None for a card or a side that the model does not know.

    `side` is one of SIDES; `tf32` says whether float32 products may use it.
    """
    found = rates_of(device)
    if found is None or side not in SIDES:
        return None
    name, rates = found
    least_s = CARDS[name].launch_s
    plain = "tf32" if tf32 and name != "Tesla T4" else "float32"
    if side in ("baseline", "sdpa"):
        steps = list(_baseline(shape) if side == "baseline" else _sdpa(shape))
        return _timed(shape, steps, rates, plain, plain, rates.eager, rates.launch_s, least_s)
    attention = "split" if side == "safe" else "half"
    one_launch = name != "Tesla T4" and shape.d_model <= _NARROW
    steps = list(_stack(shape) if one_launch else _tripled(shape, attention))
    return _timed(shape, steps, rates, "split", attention, rates.fused, 0.0, least_s)


_NARROW = 128  # up to this width one launch carries a block through all layers, on cards that Triton serves


def _timed(
    shape: Shape,
    steps: Sequence[Step],
    rates: Rates,
    products: str,
    attention: str,
    bytes_per_s: float,
    launch_s: float,
    least_s: float,
) -> Estimate:
    speeds = {"arithmetic": rates.product[products], "attention": rates.attention[attention]}
    spent = dict.fromkeys(_WORDS, 0.0)
    for step in steps:
        times = {
            step.kind: step.operations / speeds.get(step.kind, math.inf),
            "memory": step.bytes / bytes_per_s,
            "host": step.launches * least_s,
        }
        longest = max(times, key=lambda kind: times[kind])
        spent[longest] += shape.layers * times[longest]
    device_s = sum(spent.values())
    launches = shape.layers * sum(step.launches for step in steps) + 1
    host_s = launches * launch_s if launch_s else rates.replay_s
    if host_s > device_s:
        return Estimate(host_s * 1e3, _WORDS["host"])
    return Estimate(device_s * 1e3, _WORDS[max(spent, key=lambda kind: spent[kind])])


def _sizes(shape: Shape) -> tuple[float, float, float]:
    """Bytes in float32 of a row tensor, a hidden one and the scores."""
    rows = 4.0 * shape.tokens * shape.d_model
    return rows, 4.0 * shape.tokens * shape.ffn_dim, 4.0 * shape.tokens * shape.heads * shape.seq_len


def _products(shape: Shape) -> tuple[float, float]:
    """Operations of a product of D by D, and of one of D by F."""
    return 2.0 * shape.tokens * shape.d_model**2, 2.0 * shape.tokens * shape.d_model * shape.ffn_dim


def _attending(shape: Shape) -> float:
    """Operations of attention that looks at no key beyond the diagonal."""
    seen = shape.seq_len + 1 if shape.causal else 2 * shape.seq_len
    return 2.0 * shape.tokens * seen * shape.d_model


def _baseline(shape: Shape) -> Iterator[Step]:
    """The contest's baseline: scores in memory, written and read by each of its passes."""
    rows, hidden, scores = _sizes(shape)
    square, oblong = _products(shape)
    whole = 2.0 * shape.tokens * shape.seq_len * shape.d_model  # of one of attention's two, causal or not
    yield Step(4 * rows, launches=2)  # both norms
    for _ in range(4):
        yield Step(2 * rows, square, "arithmetic")
    yield Step(8 * rows, launches=4)  # heads apart, and together again
    yield Step(2 * rows + scores, whole, "arithmetic")
    yield Step(2 * scores)  # scale
    yield Step(4 * scores if shape.causal else 0.0, launches=4)  # copy, mask; and the mask is made
    yield Step(2 * scores)  # softmax
    yield Step(scores + 2 * rows, whole, "arithmetic")
    yield Step(6 * rows, launches=2)  # residuals
    yield Step(rows + hidden, oblong, "arithmetic")
    yield Step(2 * hidden)
    yield Step(rows + hidden, oblong, "arithmetic")


def _sdpa(shape: Shape) -> Iterator[Step]:
    """torch's fused attention in float32; q, k and v by one product."""
    rows, hidden, _ = _sizes(shape)
    square, oblong = _products(shape)
    yield Step(4 * rows, launches=2)
    yield Step(4 * rows, 3 * square, "arithmetic")
    yield Step(4 * rows, _attending(shape), "attention")
    yield Step(2 * rows)
    yield Step(2 * rows, square, "arithmetic")
    yield Step(6 * rows, launches=2)
    yield Step(rows + hidden, oblong, "arithmetic")
    yield Step(2 * hidden)
    yield Step(rows + hidden, oblong, "arithmetic")


def _tripled(shape: Shape, attention: str) -> Iterator[Step]:
    """Products of halves by cuBLAS with K tripled, float32 out; attention on tensor cores, all else fused.

    An operand in two halves is as large as float32, tripled one and a half times.
    """
    rows, hidden, _ = _sizes(shape)
    square, oblong = _products(shape)
    parts = 1.0 if attention == "split" else 0.5
    yield Step(2.5 * rows)  # norm → operand
    yield Step(4.5 * rows, 3 * square, "arithmetic")
    yield Step(3 * rows + 3 * parts * rows)  # bias → q, k, v
    yield Step((3 * parts + 1.5) * rows, _attending(shape), "attention")
    yield Step(2.5 * rows, square, "arithmetic")
    yield Step(3 * rows)  # bias, residual
    yield Step(2.5 * rows)
    yield Step(1.5 * rows + hidden, oblong, "arithmetic")
    yield Step(2.5 * hidden)  # bias, GELU → operand
    yield Step(1.5 * hidden + rows, oblong, "arithmetic")
    yield Step(3 * rows)


def _stack(shape: Shape) -> Iterator[Step]:
    """All layers in one launch: x in, y out, q, k and v through scratch memory."""
    rows, _, _ = _sizes(shape)
    square, oblong = _products(shape)
    yield Step(2 * rows / shape.layers + 3 * rows, 4 * square + 2 * oblong, "arithmetic", 0)
    yield Step(3 * rows, _attending(shape), "attention", 0)


def table(device: str) -> str:
    """Return the official shapes' estimates for a card as a Markdown table."""
    lines = [
        "| shape | baseline ms | `sdpa` ms | `safe` ms | `fast` ms | `safe` | `fast` | what bounds them |",
        f"|---|{'--:|' * 6}---|",
    ]
    for shape in OFFICIAL:
        found = {side: estimate(shape, device, side) for side in SIDES}
        told = {side: one for side, one in found.items() if one}
        if not shape.has_baseline(MEMORY_BYTES):
            told = {"fast": told["fast"]}  # in float16: in float32 neither side fits
        base = told.get("baseline")
        ratios = [f"{base.ms / told[side].ms:.1f}×" for side in ("safe", "fast")] if base else ["–"] * 2
        times = [_shown(told.get(side)) for side in SIDES]
        bounds = ", ".join(told[side].bound for side in ("baseline", "safe", "fast") if side in told)
        lines.append(f"| {' | '.join([shape.key, *times, *ratios, bounds])} |")
    return "\n".join(lines)


# What a route's name stands for; a choice may fall back to `sdpa`.
_NAMED = {
    "auto": "sdpa",
    "wide": "safe",
    "stack": "safe",
    "cuda": "safe",
    **{side: side for side in SIDES[1:]},
}


def foretold(cases: Sequence[Case], device: str) -> str:
    """Return a sentence on what cases of the known routes should show there; empty where there are none."""
    told = []
    for route in dict.fromkeys(case.route for case in cases if case.route in _NAMED):
        shapes = [case.shape for case in cases if case.route == route and case.dtype == "float32"]
        if words := _ratios(shapes, device, _NAMED[route]):
            fallen = "" if route == "sdpa" else f" ({_ratios(shapes, device, 'sdpa')} where it is sdpa)"
            told.append(f"{route} {words} times as fast as the baseline{fallen}")
    return f"estimated, not measured by us, of a {device}: {'; '.join(told)}" if told else ""


def _ratios(shapes: Sequence[Shape], device: str, side: str) -> str:
    found = []
    for shape in shapes:
        before, after = estimate(shape, device, "baseline"), estimate(shape, device, side)
        if before and after and shape.has_baseline(MEMORY_BYTES):
            found.append(before.ms / after.ms)
    return f"{min(found):.1f} to {max(found):.1f}" if found else ""


def _shown(one: Estimate | None) -> str:
    return "–" if one is None else f"{one.ms:,.0f}" if one.ms >= _WHOLE_MS else f"{one.ms:.3g}"


MEMORY_BYTES = 15_600_000_000  # a T4's
_WHOLE_MS = 100.0
