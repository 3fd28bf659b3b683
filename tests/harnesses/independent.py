#!/usr/bin/env python3
"""One-file Transformer benchmark: does your forward give the baseline's numbers, and how much faster is it?

An independent writing of the contest script's contract, for `ferry run --harness` and
`ferry build --for-script`. Needs Python 3.10 and torch, nothing else:

    python independent.py --batch-size 64 --d-model 128 --heads 4 --ffn-dim 128 --layers 4 --causal

Put your code into `UserOptimizedTransformer`; if your parameters have other names, into
`copy_model_weights` too. Exit code 0: every trial passed; 2: one did not.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
TIMING_SEED_OFFSET = 100_000
SHOWN_FEATURE_DIMS = 16


# ---- the model ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes of the model and of its input."""

    batch_size: int
    seq_len: int
    d_model: int
    num_heads: int
    ffn_dim: int
    num_layers: int
    causal: bool

    def validate(self) -> None:
        """Raise ValueError when a size is not positive or the heads do not divide the width."""
        sizes = {name: value for name, value in asdict(self).items() if name != "causal"}
        for name, value in sizes.items():
            if value <= 0:
                raise ValueError(f"{name} must be positive, not {value}")
        if self.d_model % self.num_heads:
            raise ValueError(f"{self.num_heads} heads do not divide d_model {self.d_model}")


def _silence(x: Tensor, valid: Tensor | None) -> Tensor:
    """Set the rows of padding tokens to zero. x [B,S,D], valid [B,S]."""
    return x if valid is None else x.masked_fill(valid.logical_not().unsqueeze(2), 0.0)


class BaselineSelfAttention(nn.Module):
    """Multi-head attention, spelled out. Softmax is taken in float32 whatever the dtype."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, valid_token_mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """x [B,S,D] -> [B,S,D]."""
        batch, length, width = x.shape
        q, k, v = (
            project(x).unflatten(2, (self.num_heads, self.head_dim)).transpose(1, 2).contiguous()
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        scores = torch.matmul(q, k.mT) * self.head_dim**-0.5
        if causal:
            future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(future, -math.inf)
        if valid_token_mask is not None:
            scores = scores.masked_fill(valid_token_mask.logical_not()[:, None, None, :], -math.inf)
        weights = scores.float().softmax(-1).to(x.dtype)
        context = torch.matmul(weights, v).transpose(1, 2).reshape(batch, length, width)
        return _silence(self.out_proj(context), valid_token_mask)


class BaselineTransformerBlock(nn.Module):
    """Pre-norm block: attention, then a GELU (erf) feed-forward, each added to its input."""

    def __init__(self, d_model: int, num_heads: int, ffn_dim: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(d_model)
        self.attention = BaselineSelfAttention(d_model, num_heads)
        self.norm2 = nn.LayerNorm(d_model)
        self.ffn_in = nn.Linear(d_model, ffn_dim)
        self.ffn_out = nn.Linear(ffn_dim, d_model)

    def forward(self, x: Tensor, valid_token_mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """x [B,S,D] -> [B,S,D]."""
        x = x + self.attention(self.norm1(x), valid_token_mask, causal)
        x = x + self.ffn_out(nn.functional.gelu(self.ffn_in(self.norm2(x))))
        return _silence(x, valid_token_mask)


class BaselineTransformer(nn.Module):
    """A stack of blocks and a last LayerNorm; no positions, no dropout."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(
            BaselineTransformerBlock(config.d_model, config.num_heads, config.ffn_dim)
            for _ in range(config.num_layers)
        )
        self.final_norm = nn.LayerNorm(config.d_model)

    def forward(self, x: Tensor, valid_token_mask: Tensor | None = None) -> Tensor:
        """x [B,S,D], valid_token_mask [B,S] bool (True: a real token) -> [B,S,D]."""
        for layer in self.layers:
            x = layer(x, valid_token_mask, self.config.causal)
        return _silence(self.final_norm(x), valid_token_mask)


class UserOptimizedTransformer(BaselineTransformer):
    """Yours. Keep the forward's signature and the shape of its result."""

    def forward(self, x: Tensor, valid_token_mask: Tensor | None = None) -> Tensor:
        """x [B,S,D], valid_token_mask [B,S] -> [B,S,D]."""
        return super().forward(x, valid_token_mask)


def copy_model_weights(baseline: nn.Module, optimized: nn.Module, strict: bool = True) -> None:
    """Give `optimized` the baseline's weights. Yours to change when your parameters have other names."""
    optimized.load_state_dict(deepcopy(baseline.state_dict()), strict=strict)


# ---- where and with what -----------------------------------------------------------------------------------


def resolve_device(name: str) -> torch.device:
    """Return the device called `name`; `auto` is cuda where there is one."""
    if name != "auto":
        return torch.device(name)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def resolve_dtype(name: str) -> torch.dtype:
    """Return the dtype called `name`. Raises ValueError for one that is not offered."""
    if name not in DTYPES:
        raise ValueError(f"no dtype {name!r}; there are {', '.join(DTYPES)}")
    return DTYPES[name]


def generate_random_case(
    config: TransformerConfig,
    device: torch.device,
    dtype: torch.dtype,
    seed: int,
    padding_ratio: float,
    input_scale: float,
) -> tuple[Tensor, Tensor]:
    """Draw x [B,S,D] and the mask [B,S] of its real tokens, a prefix of each row."""
    dice = torch.Generator(device=device).manual_seed(seed)
    b, s, d = config.batch_size, config.seq_len, config.d_model
    x = torch.randn(b, s, d, generator=dice, device=device, dtype=dtype) * input_scale
    if padding_ratio <= 0:
        return x, torch.ones(b, s, dtype=torch.bool, device=device)
    shortest = max(1, round(s * (1 - padding_ratio)))
    lengths = torch.randint(shortest, s + 1, (b, 1), generator=dice, device=device)
    valid = torch.arange(s, device=device).expand(b, s) < lengths
    return _silence(x, valid), valid


def maybe_compile(model: nn.Module, enabled: bool, mode: str) -> nn.Module:
    """Return the model, compiled if asked."""
    if not enabled:
        return model
    compiled: nn.Module = torch.compile(model, mode=mode)  # type: ignore[assignment]
    return compiled


# ---- accuracy ----------------------------------------------------------------------------------------------


class AccuracyResult(NamedTuple):
    """What one comparison found."""

    passed: bool
    total_elements: int
    failed_elements: int
    max_abs_error: float
    max_relative_error: float
    mean_abs_error: float
    failed_feature_dims: list[int]
    worst_index: tuple[int, ...]
    reference_at_worst: float
    optimized_at_worst: float


def compare_outputs(reference: Tensor, optimized: Tensor, rtol: float, atol: float) -> AccuracyResult:
    """Compare element by element: finite, and off by no more than the larger of the two tolerances.

    Raises ValueError when the shapes differ; other dtypes are compared in float32, with a warning.
    """
    if reference.shape != optimized.shape:
        raise ValueError(f"output is {list(optimized.shape)}, the baseline's {list(reference.shape)}")
    if reference.dtype != optimized.dtype:
        warnings.warn(f"output is {optimized.dtype}, the baseline's {reference.dtype}", stacklevel=2)
    want, got = reference.detach().float(), optimized.detach().float()
    error = (got - want).abs()
    error = error.masked_fill(~(want.isfinite() & got.isfinite()), math.inf)
    size = want.abs()
    # "Within atol OR within rtol*|r|" is "within the larger of both"; a NaN budget fails, as it should.
    bad = ~(error <= (rtol * size).clamp(min=atol)) | error.isinf()
    at = int(error.argmax())
    worst = tuple(int(i) for i in torch.unravel_index(torch.tensor(at), want.shape))
    return AccuracyResult(
        passed=not bool(bad.any()),
        total_elements=bad.numel(),
        failed_elements=int(bad.sum()),
        max_abs_error=float(error.max()),
        max_relative_error=float((error / size.clamp(min=1e-12)).nan_to_num(math.inf, math.inf).max()),
        mean_abs_error=float(error.double().mean()),
        failed_feature_dims=bad.flatten(0, -2).any(0).nonzero().flatten().tolist(),
        worst_index=worst,
        reference_at_worst=float(want.flatten()[at]),
        optimized_at_worst=float(got.flatten()[at]),
    )


def _verdict(ok: bool, max_abs: float, max_rel: float, failed: int, total: int) -> str:
    word = "PASS" if ok else "FAIL"
    return f"{word} | max_abs={max_abs:.6g} | max_rel={max_rel:.6g} | failed={failed}/{total}"


@torch.inference_mode()
def run_accuracy_tests(
    baseline: nn.Module,
    optimized: nn.Module,
    config: TransformerConfig,
    device: torch.device,
    dtype: torch.dtype,
    trials: int,
    seed: int,
    padding_ratio: float,
    input_scale: float,
    rtol: float,
    atol: float,
) -> bool:
    """Run every trial, print a line for each and a summary; return whether all passed."""
    print(f"\n== accuracy: {trials} trials, atol={atol:g}, rtol={rtol:g} ==")
    results = []
    for trial in range(trials):
        x, valid = generate_random_case(config, device, dtype, seed + trial, padding_ratio, input_scale)
        result = compare_outputs(baseline(x, valid), optimized(x, valid), rtol, atol)
        results.append(result)
        line = _verdict(
            result.passed,
            result.max_abs_error,
            result.max_relative_error,
            result.failed_elements,
            result.total_elements,
        )
        print(f"trial {trial + 1:02d}/{trials}: {line}")
        if not result.passed:
            print(
                f"  worst at {result.worst_index}: baseline {result.reference_at_worst:.6g},"
                f" yours {result.optimized_at_worst:.6g};"
                f" failing feature dims {result.failed_feature_dims[:SHOWN_FEATURE_DIMS]}"
            )
    ok = all(result.passed for result in results)
    line = _verdict(
        ok,
        max(result.max_abs_error for result in results),
        max(result.max_relative_error for result in results),
        sum(result.failed_elements for result in results),
        sum(result.total_elements for result in results),
    )
    print(f"summary: {line}")
    return ok


# ---- timing ------------------------------------------------------------------------------------------------


def percentile(values: Sequence[float], q: float) -> float:
    """The value below which a share `q` (0 to 1) lies, linear in between. ValueError: no values."""
    if not values:
        raise ValueError("no values, no percentile")
    ordered = sorted(values)
    share, below = math.modf((len(ordered) - 1) * q)
    low = ordered[int(below)]
    high = ordered[min(int(below) + 1, len(ordered) - 1)]
    return low + share * (high - low)


class TimingResult:
    """Times of one model in milliseconds, pooled over the rounds."""

    def __init__(self, samples_ms: Sequence[float]) -> None:
        self.samples_ms = list(samples_ms)

    @property
    def mean_ms(self) -> float:
        """Arithmetic mean."""
        return math.fsum(self.samples_ms) / len(self.samples_ms)

    @property
    def median_ms(self) -> float:
        """Half of the calls were faster."""
        return percentile(self.samples_ms, 0.5)

    @property
    def p90_ms(self) -> float:
        """Nine of ten calls were faster."""
        return percentile(self.samples_ms, 0.9)

    @property
    def min_ms(self) -> float:
        """The fastest call."""
        return min(self.samples_ms)

    def line(self, tokens: int) -> str:
        """All of it in one line; `tokens` is what one call works through."""
        return (
            f"median={self.median_ms:.4f} ms | mean={self.mean_ms:.4f} ms | p90={self.p90_ms:.4f} ms"
            f" | min={self.min_ms:.4f} ms | throughput={tokens / self.median_ms * 1000:.2f} token/s"
        )


@contextmanager
def _settled(device: torch.device) -> Iterator[None]:
    """Nothing queued on the device at either end."""
    sync: Callable[[], None] = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    sync()
    yield
    sync()


@torch.inference_mode()
def warmup_model(
    model: nn.Module, x: Tensor, valid_mask: Tensor, iterations: int, device: torch.device
) -> None:
    """Call the model `iterations` times and wait for the last."""
    with _settled(device):
        for _ in range(iterations):
            model(x, valid_mask)


@torch.inference_mode()
def benchmark_once(
    model: nn.Module, x: Tensor, valid_mask: Tensor, iterations: int, device: torch.device
) -> list[float]:
    """Time `iterations` calls one by one, in milliseconds; on a GPU by events, with no wait in between."""
    if device.type != "cuda":
        ticks = []
        for _ in range(iterations):
            begun = time.perf_counter_ns()
            model(x, valid_mask)
            ticks.append(time.perf_counter_ns() - begun)
        return [tick / 1e6 for tick in ticks]
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(2 * iterations)]  # type: ignore[no-untyped-call]
    pairs = list(zip(marks[::2], marks[1::2], strict=True))
    with _settled(device):
        for before, after in pairs:
            before.record()
            model(x, valid_mask)
            after.record()
    return [before.elapsed_time(after) for before, after in pairs]


def benchmark_models(
    baseline: nn.Module,
    optimized: nn.Module,
    config: TransformerConfig,
    device: torch.device,
    dtype: torch.dtype,
    seed: int,
    padding_ratio: float,
    input_scale: float,
    warmup: int,
    repeats: int,
    rounds: int,
) -> None:
    """Time both models on one input, taking turns at going first, and print the comparison."""
    print(f"\n== timing: warm-up {warmup}, {rounds} rounds of {repeats} calls ==")
    x, valid = generate_random_case(
        config, device, dtype, seed + TIMING_SEED_OFFSET, padding_ratio, input_scale
    )
    models = (baseline, optimized)
    samples: tuple[list[float], list[float]] = ([], [])
    for model in models:
        warmup_model(model, x, valid, warmup, device)
    for turn in range(rounds):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            samples[side].extend(benchmark_once(models[side], x, valid, repeats, device))
    slow, fast = (TimingResult(times) for times in samples)
    tokens = config.batch_size * config.seq_len
    print(f"baseline : {slow.line(tokens)}")
    print(f"optimized: {fast.line(tokens)}")
    print(f"speedup  : {slow.median_ms / fast.median_ms:.3f}x based on median latency")


# ---- command line ------------------------------------------------------------------------------------------

NUMBERS: dict[str, int | float] = {
    "--batch-size": 8,
    "--seq-len": 128,
    "--d-model": 512,
    "--heads": 8,
    "--ffn-dim": 2048,
    "--layers": 6,
    "--padding-ratio": 0.0,
    "--input-scale": 1.0,
    "--accuracy-trials": 5,
    "--rtol": 0.02,
    "--atol": 0.002,
    "--seed": 1234,
    "--warmup": 20,
    "--repeats": 100,
    "--benchmark-rounds": 3,
}
CHOICES = {
    "--dtype": tuple(DTYPES),
    "--compile-mode": ("default", "reduce-overhead", "max-autotune"),
    "--matmul-precision": ("high", "highest", "medium"),
}
SWITCHES = (
    "--causal",
    "--benchmark-on-failure",
    "--compile-baseline",
    "--compile-user",
    "--non-strict-weight-copy",
)


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Transformer forward: accuracy and speed")
    for flag, default in NUMBERS.items():
        parser.add_argument(flag, type=type(default), default=default)
    for flag, values in CHOICES.items():
        parser.add_argument(flag, choices=values, default=values[0])
    for flag in SWITCHES:
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--allow-tf32", action=argparse.BooleanOptionalAction, default=True)
    return parser.parse_args()


def validate_args(args: argparse.Namespace) -> None:
    """Raise ValueError for a number that makes no sense."""
    rules = {
        "padding-ratio must be between 0 and 1": 0 <= args.padding_ratio <= 1,
        "tolerances must not be negative": min(args.rtol, args.atol) >= 0,
        "warmup must not be negative": args.warmup >= 0,
        "accuracy-trials, repeats and benchmark-rounds must be positive": min(
            args.accuracy_trials, args.repeats, args.benchmark_rounds
        )
        > 0,
    }
    for rule, holds in rules.items():
        if not holds:
            raise ValueError(rule)


def _set_arithmetic(args: argparse.Namespace, device: torch.device) -> None:
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision(args.matmul_precision)
    if device.type == "cuda":
        torch.cuda.manual_seed_all(args.seed)
        torch.backends.cuda.matmul.allow_tf32 = args.allow_tf32
        torch.backends.cudnn.allow_tf32 = args.allow_tf32


def main() -> int:
    """Do what the command line says; return the exit code."""
    args = parse_args()
    device, dtype = resolve_device(args.device), resolve_dtype(args.dtype)
    config = TransformerConfig(
        args.batch_size, args.seq_len, args.d_model, args.heads, args.ffn_dim, args.layers, args.causal
    )
    config.validate()
    validate_args(args)
    _set_arithmetic(args, device)

    baseline: nn.Module = BaselineTransformer(config)
    optimized: nn.Module = UserOptimizedTransformer(config)
    copy_model_weights(baseline, optimized, strict=not args.non_strict_weight_copy)
    baseline = maybe_compile(baseline.to(device, dtype).eval(), args.compile_baseline, args.compile_mode)
    optimized = maybe_compile(optimized.to(device, dtype).eval(), args.compile_user, args.compile_mode)

    print(f"config   : {config}")
    print(f"device   : {device} | dtype: {dtype} | torch: {torch.__version__}")
    if device.type == "cuda":
        print(f"gpu      : {torch.cuda.get_device_name(device)}")
    case = (baseline, optimized, config, device, dtype)
    draw = (args.seed, args.padding_ratio, args.input_scale)
    ok = run_accuracy_tests(*case, args.accuracy_trials, *draw, args.rtol, args.atol)
    if ok or args.benchmark_on_failure:
        benchmark_models(*case, *draw, args.warmup, args.repeats, args.benchmark_rounds)
    else:
        print("\ntiming is skipped: the outputs differ")
    return 0 if ok else 2


if __name__ == "__main__":
    raise SystemExit(main())
