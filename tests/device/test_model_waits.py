"""No route makes the host wait for the device: nothing is read back to learn what a mask holds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.baseline import TransformerConfig
from tests.device.model_cases import inputs, mask_of, pair, run

WAITS = ("_local_scalar_dense", "is_nonzero", "nonzero", "equal", "item", "masked_select", "unique")


class Listener(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes operations that would wait for a GPU."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.waits: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation."""
        if str(func).split(".")[1] in WAITS:
            self.waits.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("route", ["eager", "sdpa", "chunked"])
@pytest.mark.parametrize("causal", [False, True])
def test_a_forward_waits_for_nothing(route: str, causal: bool) -> None:
    """Neither the first forward nor a later one reads a value back, whatever the mask."""
    config = TransformerConfig(4, 17, 32, 4, 40, 2, causal)
    _, model = pair(config, route=route)
    x = inputs(config)
    for kind in ("full", "prefix", "holes", "none"):
        mask = mask_of(kind, config)
        with Listener() as heard:
            run(model, x, mask)
        assert heard.waits == []


def test_a_wait_would_be_heard() -> None:
    """Asking a mask whether it is full shows in the same measure."""
    with Listener() as heard:
        bool(torch.ones(3, dtype=torch.bool).all())
    assert heard.waits


def test_a_mask_changed_in_place_is_seen() -> None:
    """The same mask tensor with other values in it gives what those values ask for."""
    config = TransformerConfig(4, 17, 32, 4, 40, 2, True)
    baseline, model = pair(config, route="sdpa")
    x, mask = inputs(config), mask_of("full", config)
    other = mask_of("holes", config)
    assert mask is not None and other is not None
    run(model, x, mask)
    mask.copy_(other)
    assert (run(model, x, mask) - run(baseline, x, mask)).abs().max() <= 2e-5
