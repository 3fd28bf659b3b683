"""The contest's script: its flags, its order of events, its exit codes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import torch
from torch import nn

from harness.baseline import BaselineTransformer, TransformerConfig
from harness.candidate import Candidate, load_candidate, locate, make_importable, origin
from harness.gate import run_accuracy_tests
from harness.shapes import DTYPE_BYTES, OFFICIAL_COUNTS, Settings, settings_of, settings_parser
from harness.timing import benchmark_models

OWN_MODEL = "model"
ACCURACY_FAILED = 2


def resolve_device(name: str) -> torch.device:
    """Return the device; `auto` is CUDA where there is any, else the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def resolve_dtype(name: str) -> torch.dtype:
    """Return the dtype called float32, float16 or bfloat16. Raises ValueError for any other name."""
    if name not in DTYPE_BYTES:
        raise ValueError(f"dtype {name!r} is none of {', '.join(DTYPE_BYTES)}")
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def maybe_compile(model: nn.Module, enabled: bool, mode: str) -> nn.Module:
    """Return the model, compiled in `mode` if enabled; the compilation itself comes with its first calls."""
    return cast("nn.Module", torch.compile(model, mode=mode)) if enabled else model


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness",
        description="Check a transformer against the contest's baseline, then time both.",
        parents=[settings_parser()],
    )
    parser.add_argument("--model", type=Path, help="a file or a package; gpuferry's own model by default")
    for name, size in (
        ("--batch-size", 8),
        ("--seq-len", 128),
        ("--d-model", 512),
        ("--heads", 8),
        ("--ffn-dim", 2048),
        ("--layers", 6),
        ("--warmup", OFFICIAL_COUNTS.warmup),
        ("--repeats", OFFICIAL_COUNTS.repeats),
        ("--benchmark-rounds", OFFICIAL_COUNTS.rounds),
    ):
        parser.add_argument(name, type=int, default=size)
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", choices=tuple(DTYPE_BYTES), default="float32")
    parser.add_argument("--padding-ratio", type=float, default=0.0)
    parser.add_argument("--benchmark-on-failure", action="store_true")
    parser.add_argument("--compile-baseline", action="store_true")
    parser.add_argument("--compile-user", action="store_true")
    parser.add_argument(
        "--compile-mode", choices=("default", "reduce-overhead", "max-autotune"), default="default"
    )
    return parser


def parse_args(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the flags of `argv`, or of the command line. A bad one is reported and exits 2."""
    return _parser().parse_args(argv)


def validate_args(args: argparse.Namespace) -> None:
    """Raise ValueError for a value that makes no run."""
    for name in ("accuracy_trials", "repeats", "benchmark_rounds"):
        if getattr(args, name) <= 0:
            raise ValueError(f"{name} must be positive, it is {getattr(args, name)}")
    for name in ("warmup", "rtol", "atol"):
        if getattr(args, name) < 0:
            raise ValueError(f"{name} must not be negative, it is {getattr(args, name)}")
    if not 0 <= args.padding_ratio <= 1:
        raise ValueError(f"padding_ratio must be between 0 and 1, it is {args.padding_ratio}")


def set_up_torch(settings: Settings, device: torch.device) -> None:
    """Seed the global generators and choose the arithmetic of float32 matrix products.

    On CUDA `allow_tf32` is set last and so wins over the matmul precision.
    """
    torch.manual_seed(settings.seed)
    torch.set_float32_matmul_precision(settings.matmul_precision)
    if device.type == "cuda":
        torch.cuda.manual_seed_all(settings.seed)
        torch.backends.cuda.matmul.allow_tf32 = settings.allow_tf32
        torch.backends.cudnn.allow_tf32 = settings.allow_tf32


def _build(
    candidate: Candidate, config: TransformerConfig, strict: bool, device: torch.device, dtype: torch.dtype
) -> list[nn.Module]:
    """Return the baseline and the candidate with the same weights, ready to run."""
    # The baseline comes first: what the candidate's constructor draws must not change its weights.
    baseline = BaselineTransformer(config)
    optimized = candidate.model_class(config)
    candidate.copy_model_weights(baseline, optimized, strict=strict)
    return [model.to(device=device, dtype=dtype).eval() for model in (baseline, optimized)]


def _print_setting(config: TransformerConfig, device: torch.device, dtype: torch.dtype) -> None:
    print(f"config   : {config}")
    print(f"device   : {device} | dtype={str(dtype).removeprefix('torch.')} | torch={torch.__version__}")
    if device.type == "cuda":
        print(f"gpu      : {torch.cuda.get_device_name(device)}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the contest's protocol once; return 0 when the gate passed and 2 when it did not."""
    args = parse_args(argv)
    settings = settings_of(args)
    device, dtype = resolve_device(args.device), resolve_dtype(args.dtype)
    sizes = (args.batch_size, args.seq_len, args.d_model, args.heads, args.ffn_dim, args.layers)
    config = TransformerConfig(*sizes, args.causal)
    config.validate()
    validate_args(args)
    model = make_importable(args.model) if args.model else OWN_MODEL
    print(f"model    : {origin(locate(model))}", flush=True)
    candidate = load_candidate(model)
    set_up_torch(settings, device)
    baseline, optimized = _build(candidate, config, not settings.non_strict_weight_copy, device, dtype)
    baseline = maybe_compile(baseline, args.compile_baseline, args.compile_mode)
    optimized = maybe_compile(optimized, args.compile_user, args.compile_mode)
    _print_setting(config, device, dtype)
    subject = (baseline, optimized, config, device, dtype)
    inputs = (args.padding_ratio, settings.input_scale)
    passed = run_accuracy_tests(
        *subject, settings.accuracy_trials, settings.seed, *inputs, settings.rtol, settings.atol
    )
    if passed or args.benchmark_on_failure:
        benchmark_models(*subject, settings.seed, *inputs, args.warmup, args.repeats, args.benchmark_rounds)
    else:
        print("timing skipped: the accuracy gate failed")
    return 0 if passed else ACCURACY_FAILED
