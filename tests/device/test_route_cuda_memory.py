"""What the route for a T4 allocates, followed over the longest sequences on tensors without memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from harness.baseline import TransformerConfig
from model import levers
from model.ops import cuda_rows
from model.ops.cuda_driver import Start
from model.ops.cuda_wide import CudaWide
from model.packing import pack
from model.precision import NAMED
from model.routes import cuda as route
from model.weights import Weights

WATCH: Any = StorageWeakRef  # has no types
LONG = TransformerConfig(1, 100_000, 128, 8, 192, 2, True)


class Allocations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows which storages live; `peak` is the most bytes that did at once."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._live: dict[Any, int] = {}
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation and count what it has made."""
        result = func(*args, **(kwargs or {}))
        self._live = {storage: size for storage, size in self._live.items() if not storage.expired()}
        if isinstance(result, torch.Tensor) and func in (torch.ops.aten.empty.memory_format,):
            storage = result.untyped_storage()
            self._live[WATCH(storage)] = storage.nbytes()
        self.peak = max(self.peak, sum(self._live.values()))
        return result


def product(a: torch.Tensor, weight: Any) -> torch.Tensor:
    """What a product of cuBLAS allocates."""
    return torch.empty(len(a), weight.halves.shape[2], dtype=torch.float32, device="meta")


def idle(text: str, name: str, signature: str, shared: int, defines: Mapping[str, int]) -> Start:
    """Load a function that does nothing."""
    return lambda blocks, threads, stream, *arguments: None


@pytest.mark.parametrize("tokens", [None, 100_000 // 128 * 128, 4096])
@pytest.mark.parametrize("precision", ["safe", "fast", "fp16"])
def test_the_estimates_are_what_is_allocated(
    precision: str, tokens: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of 100,000 tokens, at once or in parts, takes at most its estimate and at least 0.8 of it."""
    monkeypatch.setattr(cuda_rows, "multiply", product)
    weights = Weights(LONG)
    for parameter in weights.parameters():
        torch.nn.init.constant_(parameter, 0.01)
    packed = pack(weights)
    settings = levers.read({"LEVER_ROUTE": "cuda", "LEVER_PRECISION": precision})
    op = CudaWide(packed, 128, True, NAMED[precision], idle)
    x = torch.empty(1, 100_000, 128, dtype=torch.float16, device="meta")
    with torch.no_grad(), Allocations() as seen:
        op(x, None, tokens)
    if tokens is None:
        estimate = route.Route().bytes_per_row(x, None, weights, settings)
    else:
        held, work = route.Route().parts(x, weights, settings)
        estimate = 100_000 * held + tokens * work
    assert 0.8 * estimate <= seen.peak <= estimate
