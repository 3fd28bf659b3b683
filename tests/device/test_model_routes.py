"""Every route against the contest's baseline: the gate's rule and tighter."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from harness.baseline import TransformerConfig
from harness.gate import compare_outputs
from tests.device.model_cases import DTYPES, MASKS, inputs, mask_of, pair, run

pytestmark = pytest.mark.usefixtures("one_thread")
ROUTES = ("eager", "sdpa", "chunked")
TIGHT = 2e-5  # float32, absolute; the gate allows 2e-3
ODD = {
    "one token": TransformerConfig(3, 1, 16, 2, 24, 2, True),
    "one row": TransformerConfig(1, 17, 16, 2, 16, 2, True),
    "head of 8": TransformerConfig(2, 17, 32, 4, 40, 2, True),
    "one head": TransformerConfig(2, 33, 24, 1, 8, 1, True),
    "odd head": TransformerConfig(2, 19, 15, 3, 7, 1, True),
}


def assert_close(reference: Tensor, output: Tensor, tolerance: float = TIGHT) -> None:
    """The gate passes, with rtol 0 and this absolute tolerance."""
    assert output.dtype == reference.dtype
    result = compare_outputs(reference, output, rtol=0.0, atol=tolerance)
    assert result.passed, result


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", MASKS)
def test_matches_the_baseline_for_every_mask(route: str, causal: bool, kind: str) -> None:
    """In float32 a route is within 2e-5 of the baseline, whatever the mask."""
    config = TransformerConfig(4, 17, 32, 4, 40, 2, causal)
    baseline, model = pair(config, route=route)
    x, mask = inputs(config), mask_of(kind, config)
    assert_close(run(baseline, x, mask), run(model, x, mask))
    assert (model.route_ran, model.route_note) == (route, "")


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ODD)
def test_matches_the_baseline_at_odd_sizes(route: str, causal: bool, name: str) -> None:
    """Sizes with nothing to round to are as right as the others."""
    config = dataclasses.replace(ODD[name], causal=causal)
    baseline, model = pair(config, route=route)
    for kind in ("full", "holes"):
        x, mask = inputs(config), mask_of(kind, config)
        assert_close(run(baseline, x, mask), run(model, x, mask))


@given(
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 20), st.integers(1, 4), st.integers(1, 12)),
    ffn_dim=st.integers(1, 40),
    causal=st.booleans(),
    route=st.sampled_from(ROUTES),
    qkv=st.sampled_from(["fused", "separate"]),
    residual=st.sampled_from(["inplace", "new"]),
    chunk=st.sampled_from(["auto", "1", "2", "3"]),
    data=st.data(),
)
def test_any_shape_and_mask(
    sizes: tuple[int, int, int, int],
    ffn_dim: int,
    causal: bool,
    route: str,
    qkv: str,
    residual: str,
    chunk: str,
    data: st.DataObject,
) -> None:
    """No size, mask, route or lever setting leads away from the baseline."""
    batch, seq_len, heads, head_dim = sizes
    config = TransformerConfig(batch, seq_len, heads * head_dim, heads, ffn_dim, 2, causal)
    bits = data.draw(st.lists(st.booleans(), min_size=batch * seq_len, max_size=batch * seq_len))
    mask = torch.tensor(bits).view(batch, seq_len)
    baseline, model = pair(config, route=route, qkv=qkv, residual=residual, chunk=chunk)
    x = inputs(config)
    assert_close(run(baseline, x, mask), run(model, x, mask))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [False, True])
def test_eager_is_the_baseline_to_the_bit(dtype: torch.dtype, causal: bool) -> None:
    """The eager route does the baseline's arithmetic in the baseline's order, in every dtype."""
    config = TransformerConfig(4, 17, 32, 4, 40, 2, causal)
    baseline, model = pair(config, dtype, route="eager")
    for kind in MASKS:
        x, mask = inputs(config, dtype), mask_of(kind, config)
        assert torch.equal(run(baseline, x, mask), run(model, x, mask)), kind


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", ["full", "prefix", "holes"])
def test_half_precision_is_as_near_the_truth_as_the_baseline(
    dtype: torch.dtype, causal: bool, kind: str
) -> None:
    """In float16 and bfloat16 sdpa errs, against float64, no more than the baseline in the same dtype."""
    config = TransformerConfig(4, 33, 64, 4, 64, 2, causal)
    baseline, model = pair(config, dtype, route="sdpa")
    x, mask = inputs(config, dtype), mask_of(kind, config)
    own, ours = run(baseline, x, mask).double(), run(model, x, mask)
    truth = run(baseline.double(), x.double(), mask)
    assert ours.dtype == dtype
    assert (ours.double() - truth).square().mean() <= 1.2 * (own - truth).square().mean()


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("causal", [False, True])
def test_rows_that_do_not_count_are_zero(route: str, causal: bool) -> None:
    """Padding is exactly zero in the output, in a row with no valid token as well."""
    config = TransformerConfig(4, 17, 32, 4, 40, 2, causal)
    _, model = pair(config, route=route)
    mask = mask_of("one row empty", config)
    assert mask is not None
    output = run(model, inputs(config), mask)
    assert torch.equal(output[~mask], torch.zeros_like(output[~mask]))
    assert output[mask].abs().min(dim=-1).values.gt(0).all()


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("kind", ["prefix", "holes"])
@pytest.mark.parametrize("causal", [False, True])
def test_what_padding_holds_is_of_no_consequence(route: str, kind: str, causal: bool) -> None:
    """Whatever finite values stand in padded inputs, the output is the same to the bit."""
    config = TransformerConfig(4, 17, 32, 4, 40, 2, causal)
    _, model = pair(config, route=route)
    x, mask = inputs(config), mask_of(kind, config)
    assert mask is not None
    other = torch.where(mask[..., None], x, torch.full_like(x, 1e6))
    assert torch.equal(run(model, x, mask), run(model, other, mask))


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("residual", ["inplace", "new"])
def test_inputs_are_only_read_and_the_output_is_fresh(route: str, residual: str) -> None:
    """Neither x nor the mask is written to, and each forward returns memory of its own."""
    config = TransformerConfig(4, 17, 32, 4, 32, 2, True)
    _, model = pair(config, route=route, residual=residual)
    x = inputs(config)
    for kind in ("full", "prefix", "holes"):
        mask = mask_of(kind, config)
        assert mask is not None
        x_before, mask_before = x.clone(), mask.clone()
        first, second = run(model, x, mask), run(model, x, mask)
        assert torch.equal(x, x_before) and torch.equal(mask, mask_before)
        assert len({t.untyped_storage().data_ptr() for t in (x, first, second)}) == 3
        assert first.is_contiguous() and first.shape == x.shape


@pytest.mark.parametrize("route", ROUTES)
def test_an_input_need_not_be_contiguous(route: str) -> None:
    """A transposed view of x gives what its copy gives."""
    config = TransformerConfig(4, 16, 32, 4, 32, 1, True)
    _, model = pair(config, route=route, chunk="3")
    view = inputs(config).transpose(0, 1).contiguous().transpose(0, 1)
    output = run(model, view)
    assert torch.equal(output, run(model, view.contiguous()))
    assert output.is_contiguous()


def test_unasked_the_model_runs_sdpa() -> None:
    """With no lever set, or with `auto`, the route is sdpa."""
    config = TransformerConfig(2, 8, 16, 2, 16, 1, True)
    for _, model in (pair(config), pair(config, route="auto")):
        run(model, inputs(config))
        reported = model.route_ran, model.route_note, model.compile_s, model.chunk_rows
        assert reported == ("sdpa", "there is no GPU", None, None)


@pytest.mark.parametrize("route", ["graphed", "amp"])
def test_a_route_for_gpus_runs_as_sdpa_elsewhere(route: str) -> None:
    """Without a GPU the output is sdpa's to the bit, and the row can say why."""
    config = TransformerConfig(2, 8, 16, 2, 16, 1, True)
    x = inputs(config)
    (_, model), (_, plain) = pair(config, route=route), pair(config, route="sdpa")
    assert torch.equal(run(model, x), run(plain, x))
    assert (model.route_ran, model.route_note) == ("sdpa", "needs a CUDA GPU")


@pytest.mark.parametrize("choice", ["safe", "fp16"])
def test_on_a_cpu_a_choice_is_sdpa(choice: str) -> None:
    """A choice for which a CPU has nothing of its own takes sdpa."""
    config = TransformerConfig(2, 8, 16, 2, 16, 1, True)
    _, model = pair(config, route=choice)
    run(model, inputs(config))
    assert (model.route_ran, model.route_note) == ("sdpa", "there is no GPU")
