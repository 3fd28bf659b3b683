"""The packed weights: what is folded into them, what their halves leave, the bound, and how changes show."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.baseline import BaselineTransformer, TransformerConfig, copy_model_weights
from model.ops.rounded import rounded
from model.packing import Halves, Packed, Packing, pack, padded_head_dim, split
from model.precision import NAMED
from model.weights import Weights

pytestmark = pytest.mark.usefixtures("one_thread")
CONFIG = TransformerConfig(2, 16, 24, 3, 40, 2, True)


def loaded(config: TransformerConfig, scale: float = 1.0) -> Weights:
    """Weights as the contest draws them, with norms that are not plain, times `scale`."""
    torch.manual_seed(5)
    baseline, weights = BaselineTransformer(config), Weights(config)
    with torch.no_grad():
        for name, parameter in baseline.named_parameters():
            if "norm" in name:
                parameter.add_(torch.randn_like(parameter), alpha=0.5)
            parameter.mul_(scale)
    copy_model_weights(baseline, weights, strict=True)
    return weights


def whole(halves: Halves, layer: int) -> Tensor:
    """A layer's weights [K,N] in float64, put together from its halves."""
    return (halves.hi[layer].double() + halves.lo[layer].double()) * halves.unscale[layer]


def forward(packed: Packed, x: Tensor, d_model: int) -> Tensor:
    """The causal model over x [B,S,D] in float64, computed from the packed weights."""
    heads, head_dim, width = packed.heads, packed.head_dim, packed.out_bias.shape[1]
    future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    for layer in range(len(packed.q_bias)):
        n = functional.pad(functional.layer_norm(x, x.shape[-1:]), (0, width - d_model))
        q, k, v = (n @ whole(packed.qkv, layer)).chunk(3, -1)
        apart = *x.shape[:2], heads, head_dim
        q, k, v = (t.view(apart).transpose(1, 2) for t in (q + packed.q_bias[layer], k, v))
        shares = torch.softmax((q @ k.mT * math.log(2)).masked_fill(future, -math.inf), -1)
        merged = (shares @ v).transpose(1, 2).flatten(2)
        x = x + (merged @ whole(packed.out, layer) + packed.out_bias[layer])[..., :d_model]
        n = functional.pad(functional.layer_norm(x, x.shape[-1:]), (0, width - d_model))
        h = functional.gelu(n @ whole(packed.ffn_in, layer) + packed.ffn_in_bias[layer])
        x = x + (h @ whole(packed.ffn_out, layer) + packed.ffn_out_bias[layer])[..., :d_model]
    weight, bias = (t[:d_model] for t in packed.final_norm)
    return functional.layer_norm(x, x.shape[-1:]) * weight + bias


@pytest.mark.parametrize("width, hidden", [(None, None), (32, 64)])
@pytest.mark.parametrize("scale", [1.0, 1e-3, 30.0])
def test_packed_weights_are_the_model(width: int | None, hidden: int | None, scale: float) -> None:
    """Folded, padded and put together again they give the baseline's result in float64."""
    weights = loaded(CONFIG, scale)
    baseline = BaselineTransformer(CONFIG).double()
    baseline.load_state_dict(weights.state_dict())
    x = torch.randn(2, 16, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected = baseline(x)
    result = forward(pack(weights, width, hidden), x, CONFIG.d_model)
    assert (result - expected).abs().max() <= 2e-6 * max(1.0, scale) * expected.abs().max()


def test_padding_is_zero_and_shapes_are_stated() -> None:
    """A head of 8 takes 16 columns, D and F their next multiple of 16, and all beyond is zero."""
    packed = pack(loaded(CONFIG))
    assert (packed.head_dim, packed.qkv.hi.shape, packed.out.hi.shape) == (16, (2, 32, 144), (2, 48, 32))
    assert (packed.ffn_in.hi.shape, packed.ffn_out.lo.shape) == ((2, 32, 48), (2, 48, 32))
    heads = packed.qkv.hi.view(2, 32, 3, 3, 16)
    assert heads[:, :24, :, :, :8].count_nonzero() > 0
    assert heads[:, 24:].count_nonzero() == heads[..., 8:].count_nonzero() == 0
    assert [padded_head_dim(n) for n in (1, 8, 16, 24, 32, 96)] == [16, 16, 16, 32, 32, 128]


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1.0, 1e5])
def test_halves_leave_nothing_of_float32(scale: float) -> None:
    """Weights of any magnitude come back from their halves to 2^-32 of the largest or 2^-22 of their own."""
    weights = loaded(CONFIG, scale)
    packed = pack(weights)
    for layer, block in enumerate(weights.blocks):
        expected = block.ffn_out.weight.double().T
        missed = (whole(packed.ffn_out, layer)[:40, :24] - expected).abs()
        assert (missed <= 2**-22 * expected.abs() + 2**-32 * expected.abs().max()).all()


def test_split_at_the_ends_of_float16() -> None:
    """The halves add up within 2^-22, or 2^-25 near zero; up to 65504 nothing overflows."""
    x = torch.tensor([65504.0, -65503.7, 1.0 + 2**-20, 2**-14 * 1.1, 2**-24, 2**-26, 0.0, -1 / 3])
    hi, lo = split(x)
    assert (hi.dtype, lo.dtype) == (torch.float16, torch.float16)
    missed = (hi.double() + lo.double() - x.double()).abs()
    assert (missed <= torch.maximum(2**-22 * x.double().abs(), torch.tensor(2.0**-25))).all()


def test_no_operand_exceeds_its_bound() -> None:
    """The bounds hold for rows chosen to reach them, and come within a few percent of what these reach."""
    weights = loaded(CONFIG)
    bounds = pack(weights).bounds
    block = weights.blocks[0]
    reached = []
    with torch.no_grad():
        for index in range(CONFIG.ffn_dim):
            direction = block.ffn_in.weight[index] * block.norm2.weight
            n = block.norm2(1e4 * direction[None])
            reached.append(float(functional.gelu(block.ffn_in(n)).abs().max()))
    assert 0.5 * bounds["the feed-forward's hidden value"] <= max(reached)
    assert max(reached) <= bounds["the feed-forward's hidden value"]


def test_weights_too_large_for_float16_are_refused() -> None:
    """A bound beyond 65504, or a weight that is no number, is told by name; ordinary weights are served."""
    weights = loaded(CONFIG)
    assert pack(weights).refusal == ""
    with torch.no_grad():
        weights.blocks[1].attention.k_proj.weight.mul_(1e5)
    assert pack(weights).refusal.startswith("k may reach ")
    assert pack(Weights(CONFIG)).refusal.startswith("q may reach nan")


CHANGES: dict[str, Callable[[Weights], object]] = {
    "in place": lambda weights: weights.blocks[0].ffn_in.weight.mul_(2.0),
    "loaded": lambda weights: weights.load_state_dict(loaded(CONFIG, 2.0).state_dict()),
    "loaded by assignment": lambda weights: weights.load_state_dict(
        loaded(CONFIG, 2.0).state_dict(), assign=True
    ),
    "rounded and back": lambda weights: weights.half().float(),
    "cast": lambda weights: weights.to(torch.float64),
    "replaced": lambda weights: setattr(
        weights.blocks[1].ffn_out, "weight", nn.Parameter(torch.ones(CONFIG.d_model, CONFIG.ffn_dim))
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_weights_are_packed_again(change: str) -> None:
    """Unchanged weights keep their packing, the very object; any change that torch shows makes a new one."""
    weights, packing = loaded(CONFIG), Packing()
    first = packing.of(weights)
    assert packing.of(weights) is first
    with torch.no_grad():
        CHANGES[change](weights)
    second = packing.of(weights)
    assert second is not first and packing.of(weights) is second


def test_weights_that_count_no_versions_are_packed_each_time() -> None:
    """Parameters made in inference mode show no change, so that none is missed they are packed each time."""
    with torch.inference_mode():
        weights = Weights(CONFIG)
    packing = Packing()
    assert packing.of(weights) is not packing.of(weights)


ROUNDED = {"safe": (1e-8, 2e-6), "fast": (1e-5, 1e-3), "fp16": (1e-4, 2e-3)}


@pytest.mark.parametrize("precision", ROUNDED)
def test_what_a_precision_costs(precision: str) -> None:
    """The packed weights, rounded as the tensor-core ops round, miss by what each precision stands for."""
    config = TransformerConfig(2, 64, 96, 4, 96, 4, True)
    weights = loaded(config)
    baseline = BaselineTransformer(config).double()
    baseline.load_state_dict(weights.state_dict())
    x = torch.randn(2, 64, 96, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        error = (rounded(x, pack(weights), 96, True, NAMED[precision]) - baseline(x.double())).abs().max()
    least, most = ROUNDED[precision]
    assert least <= error <= most
