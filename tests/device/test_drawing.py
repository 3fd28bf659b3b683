"""Judge and worker draw the same weights, whatever a candidate has done to the process that it is in."""

from collections.abc import Iterator

import pytest
import torch

import harness.contract
from harness.drawing import draw
from harness.shapes import SHAPES, Case

CPU = torch.device("cpu")


@pytest.fixture
def other_defaults() -> Iterator[None]:
    """A process in which a candidate has asked for other tensors by default."""
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    yield
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)


def weights() -> dict[str, torch.Tensor]:
    """The baseline's weights for one case and seed."""
    return dict(draw(harness.contract, Case(SHAPES["t01"]), 1234, CPU).baseline.state_dict())


@pytest.fixture
def plain() -> dict[str, torch.Tensor]:
    """The weights as the judge draws them."""
    return weights()


def test_defaults_do_not_change_the_weights(plain: dict[str, torch.Tensor], other_defaults: None) -> None:
    """Weights are drawn in float32 on the CPU also where something else is the default, which stays so."""
    again = weights()
    assert again.keys() == plain.keys()
    assert all(again[key].equal(plain[key]) for key in plain)
    assert torch.get_default_dtype() is torch.float64
    assert torch.get_default_device().type == "meta"
