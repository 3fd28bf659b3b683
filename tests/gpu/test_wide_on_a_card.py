"""The ops of the wide path on a GPU: the interpreter's cases in real cuts, long sequences, and the routes."""

from __future__ import annotations

import pytest
import torch

from harness.baseline import BaselineTransformer, TransformerConfig, copy_model_weights
from model.ops.attention import Walk
from model.ops.matmul import Tiles
from model.ops.wide import Cut
from tests.device.model_cases import candidate
from tests.device.op_cases import (
    Attended,
    Norm,
    Product,
    attention_error,
    layernorm_errors,
    matmul_errors,
    wide_error,
)

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() < (8, 0),
    reason="there is no GPU here for which Triton uses tensor cores",
)
LIMITS = {"safe": 6e-6, "fast": 1e-3, "fp16": 2e-3}
TILES = [
    None,
    Tiles(64, 64, 32, warps=4),
    Tiles(128, 128, 32, ordered=True),
    Tiles(128, 128, 64, ordered=True, persistent=True, stages=2),
    Tiles(128, 128, 64, descriptors=True, stages=2),
    Tiles(128, 128, 64, descriptors=True, ordered=True, persistent=True, stages=2),
]


@pytest.mark.parametrize("case", [Norm(1000, 1024, 1024), Norm(33, 100, 112), Norm(5, 4096, 4096, 1e10)])
@pytest.mark.parametrize("tripled", [False, True])
def test_layernorm(case: Norm, tripled: bool) -> None:
    """Both of its results, for widths in and out of tiles."""
    operand, final = layernorm_errors(case, True, tripled, "cuda")
    assert operand <= 4e-6 and final <= 2e-5


@pytest.mark.parametrize("case", [Product(1000, 1024, 3072, 1024, 3072), Product(129, 80, 272, 100, 265)])
@pytest.mark.parametrize("tiles", TILES)
@pytest.mark.parametrize("is_split", [True, False])
def test_matmul(case: Product, tiles: Tiles | None, is_split: bool) -> None:
    """Every way to cut it, with sides that fit no tile; the descriptors' ways need a card that has them."""
    if tiles and tiles.descriptors and torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("this card has no tensor descriptors")
    hidden, summed = matmul_errors(case, is_split, tiles, device="cuda")
    assert hidden <= (2e-5 if is_split else 4e-3) and summed <= 2e-5


def test_matmul_by_cublas() -> None:
    """One library product with K tripled is as exact."""
    assert max(matmul_errors(Product(1000, 1024, 1024, 100, 1000), True, None, "cublas", "cuda")) <= 2e-5


@pytest.mark.parametrize("head_dim", [16, 32, 64, 128, 256])
@pytest.mark.parametrize("is_split", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_attention(head_dim: int, is_split: bool, causal: bool) -> None:
    """Every width of heads over a length that fits no block, with holes."""
    error = attention_error(Attended(2, 333, 2, head_dim, causal, "holes"), is_split, None, "cuda")
    assert error <= (4e-6 if is_split else 4e-3)


@pytest.mark.parametrize("walk", [Walk(128, 64, 8, 3), Walk(128, 128, 8, 2), Walk(64, 32, 4, 3)])
def test_long_attention(walk: Walk) -> None:
    """Thousands of keys, where the running sum's error would show."""
    assert attention_error(Attended(1, 5000, 1, 64, True), True, walk, "cuda") <= 4e-6


@pytest.mark.parametrize("cut", [Cut(), Cut("cublas"), Cut("cublas", "torch"), Cut("triton", "torch")])
@pytest.mark.parametrize("precision", LIMITS)
@pytest.mark.parametrize("causal", [True, False])
def test_the_whole(cut: Cut, precision: str, causal: bool) -> None:
    """The transformer at a width beyond the fused op's, over padding with holes."""
    config = TransformerConfig(3, 200, 320, 5, 400, 3, causal)
    error, zeroed = wide_error(config, "holes", precision, cut, "cuda")
    assert error <= LIMITS[precision] and zeroed


@pytest.mark.parametrize(
    "route", ["auto", "safe", "fast", "fp16", "stack", "wide", "cuda", "sdpa", "graphed"]
)
def test_a_route_waits_for_nothing(route: str) -> None:
    """After its first call a route never makes the host wait for the device."""
    config = TransformerConfig(4, 128, 128, 4, 128, 2, True)
    baseline = BaselineTransformer(config).cuda()
    model = candidate(config, route=route).cuda()
    copy_model_weights(baseline, model)
    x, mask = torch.randn(4, 128, 128, device="cuda"), torch.ones(4, 128, dtype=torch.bool, device="cuda")
    with torch.inference_mode():
        expected = baseline(x, mask)
        model(x, mask)
        torch.cuda.set_sync_debug_mode("error")
        try:
            found = model(x, mask)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert (found - expected).abs().max() <= 4e-3
    assert model.route_note == ""
