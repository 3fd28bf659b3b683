"""The suite `stress` on a CPU: gpuferry's own routes pass the gate on each of its shapes in float32."""

from __future__ import annotations

import pytest
import torch

from harness import contract
from harness.drawing import draw
from harness.gate import worst_share
from harness.shapes import STRESS, Case, Shape
from model import OptimizedTransformer

pytestmark = pytest.mark.usefixtures("one_thread")
ROUTES = ("eager", "sdpa")


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("shape", STRESS, ids=lambda shape: f"{shape.key}-{shape.inputs}")
def test_own_routes_pass(shape: Shape, route: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the sizes, the padding and the inputs, no element uses a tenth of its budget."""
    monkeypatch.setenv("LEVER_ROUTE", route)
    drawn = draw(contract, Case(shape), 1234, torch.device("cpu"))
    drawn.placed(drawn.baseline)
    model = OptimizedTransformer(drawn.config)
    contract.copy_model_weights(drawn.baseline, model)
    inputs = drawn.inputs(1234)
    with torch.inference_mode():
        worst = worst_share(drawn.baseline(*inputs), drawn.placed(model)(*inputs), 0.02, 0.002)
    assert worst.share < 0.1
    assert worst.reference == worst.reference
