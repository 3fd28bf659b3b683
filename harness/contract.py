"""The public names of the contest's script, for a model file that imports them from there."""

from __future__ import annotations

from harness.baseline import (
    BaselineSelfAttention,
    BaselineTransformer,
    BaselineTransformerBlock,
    TransformerConfig,
    UserOptimizedTransformer,
    copy_model_weights,
)
from harness.gate import AccuracyResult, compare_outputs, run_accuracy_tests
from harness.inputs import generate_random_case
from harness.script import main, maybe_compile, parse_args, resolve_device, resolve_dtype, validate_args
from harness.timing import TimingResult, benchmark_models, benchmark_once, percentile, warmup_model

__all__ = [
    "AccuracyResult",
    "BaselineSelfAttention",
    "BaselineTransformer",
    "BaselineTransformerBlock",
    "TimingResult",
    "TransformerConfig",
    "UserOptimizedTransformer",
    "benchmark_models",
    "benchmark_once",
    "compare_outputs",
    "copy_model_weights",
    "generate_random_case",
    "main",
    "maybe_compile",
    "parse_args",
    "percentile",
    "resolve_device",
    "resolve_dtype",
    "run_accuracy_tests",
    "validate_args",
    "warmup_model",
]
