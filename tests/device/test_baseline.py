"""The contest's baseline transformer against arithmetic written out by hand."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch import Tensor, nn

from harness.baseline import (
    BaselineSelfAttention,
    BaselineTransformer,
    BaselineTransformerBlock,
    TransformerConfig,
    UserOptimizedTransformer,
    copy_model_weights,
)

TINY = TransformerConfig(2, 3, 4, 2, 6, 2, True)
LAYER_SHAPES = {
    "norm1.weight": (4,),
    "norm1.bias": (4,),
    "attention.q_proj.weight": (4, 4),
    "attention.q_proj.bias": (4,),
    "attention.k_proj.weight": (4, 4),
    "attention.k_proj.bias": (4,),
    "attention.v_proj.weight": (4, 4),
    "attention.v_proj.bias": (4,),
    "attention.out_proj.weight": (4, 4),
    "attention.out_proj.bias": (4,),
    "norm2.weight": (4,),
    "norm2.bias": (4,),
    "ffn_in.weight": (6, 4),
    "ffn_in.bias": (6,),
    "ffn_out.weight": (4, 6),
    "ffn_out.bias": (4,),
}


def test_the_config_takes_the_contest_s_positional_order() -> None:
    """The seven fields come in the contest's order and the config cannot be changed."""
    assert TransformerConfig(1, 2, 3, 4, 5, 6, False) == TransformerConfig(
        batch_size=1, seq_len=2, d_model=3, num_heads=4, ffn_dim=5, num_layers=6, causal=False
    )
    with pytest.raises(AttributeError):
        TINY.causal = False  # type: ignore[misc]


@pytest.mark.parametrize("place", range(6))
def test_a_size_of_zero_is_no_config(place: int) -> None:
    """Each of the six sizes must be positive."""
    batch, seq_len, width, heads, ffn, layers = (0 if i == place else 2 for i in range(6))
    name = dataclasses.fields(TINY)[place].name
    with pytest.raises(ValueError, match=f"{name} must be positive, it is 0"):
        TransformerConfig(batch, seq_len, width, heads, ffn, layers, True).validate()


def test_heads_that_do_not_divide_the_width_are_no_config() -> None:
    """Five heads cannot share a width of four."""
    with pytest.raises(ValueError, match="num_heads=5 does not divide d_model=4"):
        TransformerConfig(1, 2, 4, 5, 6, 1, True).validate()


def test_the_state_dict_has_the_contest_s_keys_in_order() -> None:
    """Sixteen tensors a layer, then the final norm; 66 keys at four layers; no buffers."""
    model = BaselineTransformer(TINY)
    expected = {f"layers.{i}.{key}": shape for i in range(2) for key, shape in LAYER_SHAPES.items()}
    expected |= {"final_norm.weight": (4,), "final_norm.bias": (4,)}
    assert [(k, tuple(v.shape)) for k, v in model.state_dict().items()] == list(expected.items())
    assert list(model.buffers()) == []
    assert len(BaselineTransformer(TransformerConfig(1, 2, 4, 2, 6, 4, True)).state_dict()) == 66


def test_weights_are_drawn_in_module_order_from_the_global_seed() -> None:
    """The same seed gives the weights that plain linears, made in the documented order, get."""
    torch.manual_seed(5)
    model = BaselineTransformer(TransformerConfig(1, 2, 4, 2, 6, 1, True))
    torch.manual_seed(5)
    q, k, v, out = (nn.Linear(4, 4) for _ in range(4))
    ffn_in, ffn_out = nn.Linear(4, 6), nn.Linear(6, 4)
    state = model.state_dict()
    for name, linear in {"q": q, "k": k, "v": v, "out": out}.items():
        assert torch.equal(state[f"layers.0.attention.{name}_proj.weight"], linear.weight)
        assert torch.equal(state[f"layers.0.attention.{name}_proj.bias"], linear.bias)
    assert torch.equal(state["layers.0.ffn_in.bias"], ffn_in.bias)
    assert torch.equal(state["layers.0.ffn_out.weight"], ffn_out.weight)
    assert state["layers.0.attention.q_proj.weight"].abs().max() <= 1 / math.sqrt(4)


def _identity_attention(width: int, heads: int) -> BaselineSelfAttention:
    attention = BaselineSelfAttention(width, heads)
    for linear in (attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj):
        nn.init.eye_(linear.weight)
        nn.init.zeros_(linear.bias)
    return attention


def test_attention_by_hand() -> None:
    """With identity projections the second token of (0, 2) weighs them by softmax(0, 4)."""
    attention = _identity_attention(1, 1)
    output = attention(torch.tensor([[[0.0], [2.0]]]), torch.ones(1, 2, dtype=torch.bool), False)
    expected = 2 * math.exp(4) / (1 + math.exp(4))
    assert output.flatten().tolist() == pytest.approx([1.0, expected])


def test_scores_are_scaled_by_the_head_s_width() -> None:
    """Four channels in one head scale a score of 4 * 1 * 1 by a half."""
    x = torch.tensor([[[1.0] * 4, [0.0] * 4]])
    output = _identity_attention(4, 1)(x, torch.ones(1, 2, dtype=torch.bool), False)
    weight = math.exp(4 * 4**-0.5)
    assert output[0, 0].tolist() == pytest.approx([weight / (weight + 1)] * 4)


def test_causal_attention_does_not_look_ahead() -> None:
    """Under causal attention the first token sees itself alone."""
    mask = torch.ones(1, 2, dtype=torch.bool)
    output = _identity_attention(1, 1)(torch.tensor([[[0.5], [2.0]]]), mask, True)
    assert output[0, 0].item() == 0.5
    assert output[0, 1].item() > 1.5


def test_masked_keys_get_no_weight_and_masked_rows_are_zero() -> None:
    """The valid token sees itself alone; the padded one comes out as zero although out_proj has a bias."""
    attention = _identity_attention(1, 1)
    nn.init.ones_(attention.out_proj.bias)
    output = attention(torch.tensor([[[0.5], [2.0]]]), torch.tensor([[True, False]]), False)
    assert output.flatten().tolist() == [1.5, 0.0]


def test_half_precision_comes_out_in_half_precision() -> None:
    """The softmax in float32 leaves the model's dtype as it was."""
    x = torch.ones(1, 2, 4, dtype=torch.float16)
    assert (
        _identity_attention(4, 2).half()(x, torch.ones(1, 2, dtype=torch.bool), True).dtype == torch.float16
    )


def test_heads_do_not_mix() -> None:
    """Two heads of width one are two attentions of width one side by side."""
    x = torch.randn(1, 5, 2, generator=torch.Generator().manual_seed(3))
    mask = torch.ones(1, 5, dtype=torch.bool)
    single = _identity_attention(1, 1)
    parts = [single(x[..., i : i + 1].contiguous(), mask, True) for i in range(2)]
    torch.testing.assert_close(_identity_attention(2, 2)(x, mask, True), torch.cat(parts, dim=-1))


def test_a_block_adds_attention_then_feed_forward() -> None:
    """With all linears at zero but ffn_out's bias, a block adds that bias and keeps its input."""
    block = BaselineTransformerBlock(4, 2, 6)
    for parameter in block.parameters():
        nn.init.zeros_(parameter)
    nn.init.constant_(block.ffn_out.bias, 0.25)
    x = torch.arange(8.0).reshape(1, 2, 4)
    kept = x.clone()
    output = block(x, torch.tensor([[True, False]]), True)
    assert output[0, 0].tolist() == [0.25, 1.25, 2.25, 3.25]
    assert output[0, 1].tolist() == [0.0] * 4
    assert torch.equal(x, kept)


def test_the_feed_forward_uses_the_exact_gelu() -> None:
    """A pre-activation of 1 becomes 1 * Phi(1), by the error function."""
    block = BaselineTransformerBlock(1, 1, 1)
    for parameter in block.parameters():
        nn.init.zeros_(parameter)
    nn.init.ones_(block.ffn_in.bias)
    nn.init.ones_(block.ffn_out.weight)
    output = block(torch.zeros(1, 1, 1), torch.ones(1, 1, dtype=torch.bool), True)
    assert output.item() == pytest.approx(0.5 * (1 + math.erf(1 / math.sqrt(2))), abs=1e-7)


def test_the_final_norm_s_padding_is_zero() -> None:
    """The last LayerNorm would give padded rows its bias; they come out as zero."""
    model = BaselineTransformer(TINY)
    nn.init.ones_(model.final_norm.bias)
    mask = torch.tensor([[True, True, False], [True, False, False]])
    output = model(torch.randn(2, 3, 4), mask)
    assert (output[~mask] == 0).all()
    assert (output[mask] != 0).all()


def test_padding_that_is_nan_does_not_poison() -> None:
    """A nan that arises in a padded row's own arithmetic is gone after the row is zeroed."""
    model = BaselineTransformer(TINY).eval()
    mask = torch.tensor([[True, True, False], [True, True, True]])

    def poison(_module: nn.Module, _args: object, output: Tensor) -> Tensor:
        return output.masked_fill(~mask[..., None], float("nan"))

    clean = model(torch.ones(2, 3, 4), mask)
    for part in ("layers.0.attention.out_proj", "layers.0.ffn_out", "final_norm"):
        handle = model.get_submodule(part).register_forward_hook(poison)
        assert torch.equal(model(torch.ones(2, 3, 4), mask), clean)
        handle.remove()


def test_no_mask_is_a_mask_of_ones() -> None:
    """The mask may be left out; then every token counts."""
    model = BaselineTransformer(TINY)
    x = torch.randn(2, 3, 4)
    assert torch.equal(model(x), model(x, torch.ones(2, 3, dtype=torch.bool)))


def test_the_stub_is_the_baseline() -> None:
    """After the copy the stub's output is the baseline's, and its weights are its own."""
    baseline, stub = BaselineTransformer(TINY), UserOptimizedTransformer(TINY)
    copy_model_weights(baseline, stub)
    x = torch.randn(2, 3, 4)
    assert torch.equal(stub(x), baseline(x))
    nn.init.zeros_(baseline.final_norm.weight)
    assert (stub.final_norm.weight == 1).all()


def test_a_strict_copy_wants_the_same_keys() -> None:
    """An extra parameter fails the strict copy and passes the other."""
    baseline, candidate = BaselineTransformer(TINY), UserOptimizedTransformer(TINY)
    candidate.extra = nn.Parameter(torch.zeros(1))
    with pytest.raises(RuntimeError, match="extra"):
        copy_model_weights(baseline, candidate)
    copy_model_weights(baseline, candidate, strict=False)
    for name, value in baseline.state_dict().items():
        assert torch.equal(candidate.get_parameter(name), value)
