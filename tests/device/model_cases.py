"""A baseline and a candidate with its weights, masks of every kind, and what a call allocates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from harness.baseline import BaselineTransformer, TransformerConfig, copy_model_weights
from model import OptimizedTransformer
from model.routes import Route

MASKS = ("full", "prefix", "holes", "one row empty", "all empty", "none")
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def candidate(config: TransformerConfig, **levers: str) -> OptimizedTransformer:
    """The model, built under these levers: `route="sdpa"` sets LEVER_ROUTE."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in levers.items():
            patch.setenv(f"LEVER_{name.upper()}", value)
        return OptimizedTransformer(config)


def pair(
    config: TransformerConfig, dtype: torch.dtype = torch.float32, **levers: str
) -> tuple[BaselineTransformer, OptimizedTransformer]:
    """Baseline and candidate with the same weights, in the order and the way of the contest's script."""
    torch.manual_seed(1234)
    baseline = BaselineTransformer(config)
    model = candidate(config, **levers)
    copy_model_weights(baseline, model, strict=True)
    return baseline.to(dtype=dtype).eval(), model.to(dtype=dtype).eval()


def route_of(model: OptimizedTransformer) -> Route:
    """The route that the model's first forward took."""
    return next(iter(model._plans.values())).route


def inputs(config: TransformerConfig, dtype: torch.dtype = torch.float32, seed: int = 7) -> Tensor:
    """A batch [B,S,D]; padded tokens are not zero in it."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(config.batch_size, config.seq_len, config.d_model, generator=generator).to(dtype)


def mask_of(kind: str, config: TransformerConfig, seed: int = 7) -> Tensor | None:
    """A mask [B,S] of one of the kinds in MASKS."""
    shape = config.batch_size, config.seq_len
    generator = torch.Generator().manual_seed(seed)
    if kind == "none":
        return None
    if kind == "prefix":
        lengths = torch.randint(1, config.seq_len + 1, (config.batch_size, 1), generator=generator)
        return torch.arange(config.seq_len) < lengths
    if kind in ("full", "all empty"):
        return torch.full(shape, kind == "full")
    mask = torch.rand(shape, generator=generator) > 0.5
    if kind == "one row empty":
        mask[-1] = False
    return mask


def run(model: Callable[..., object], x: Tensor, mask: Tensor | None = None) -> Tensor:
    """One forward in inference mode."""
    with torch.inference_mode():
        result = model(x, mask)
    assert isinstance(result, Tensor)
    return result


@dataclass(frozen=True)
class Allocated:
    """Bytes that torch's CPU allocator gave out during a call."""

    peak: int
    largest: int


def allocated(call: Callable[[], object]) -> Allocated:
    """What `call` allocates, its result included, also inside torch's own operators."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        kept = call()
    del kept
    assert seen.profiler is not None and seen.profiler.kineto_results is not None
    events = [event for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    live = peak = largest = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        peak, largest = max(peak, live), max(largest, event.nbytes())
    return Allocated(peak, largest)
