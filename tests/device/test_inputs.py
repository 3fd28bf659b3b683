"""The contest's random inputs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from harness.baseline import BaselineTransformer, TransformerConfig
from harness.inputs import KINDS, altered, generate_random_case
from harness.shapes import SHAPES

CONFIG = TransformerConfig(50, 8, 2, 1, 2, 1, True)
CPU = torch.device("cpu")


def _case(seed: int = 7, padding_ratio: float = 0.0, input_scale: float = 1.0) -> tuple[Tensor, Tensor]:
    return generate_random_case(CONFIG, CPU, torch.float32, seed, padding_ratio, input_scale)


def test_inputs_come_from_a_generator_of_their_own() -> None:
    """The draw is the seed's alone, and the global generator does not move."""
    state = torch.get_rng_state()
    x, mask = _case()
    assert torch.equal(x, torch.randn(50, 8, 2, generator=torch.Generator().manual_seed(7)))
    assert mask.dtype == torch.bool and mask.shape == (50, 8) and bool(mask.all())
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(x, _case(seed=8)[0])


def test_inputs_are_scaled_in_the_run_s_dtype() -> None:
    """The scale multiplies the draw; float16 draws are made in float16."""
    assert torch.equal(_case(input_scale=3.0)[0], _case()[0] * 3.0)
    assert generate_random_case(CONFIG, CPU, torch.float16, 7, 0.0, 1.0)[0].dtype == torch.float16


def test_padding_masks_are_prefixes_of_every_allowed_length() -> None:
    """Of 8 tokens at a ratio of 0.5, 4 to 8 stay; what is cut is zero, what stays is the same draw."""
    x, mask = _case(padding_ratio=0.5)
    lengths = mask.sum(dim=1)
    assert set(lengths.tolist()) == {4, 5, 6, 7, 8}
    assert torch.equal(mask, torch.arange(8) < lengths[:, None])
    assert (x[~mask] == 0).all()
    assert torch.equal(x[mask], _case()[0][mask])


def test_full_padding_leaves_a_token() -> None:
    """A ratio of 1 still leaves each sequence one token at least."""
    assert int(_case(padding_ratio=1.0)[1].sum(dim=1).min()) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_harder_inputs_keep_their_padding(kind: str) -> None:
    """Each kind changes what counts, is finite in float16, too, and leaves zeros where nothing counts."""
    x, mask = generate_random_case(CONFIG, CPU, torch.float16, 7, 0.5, 1.0)
    before = x.clone()
    harder = altered(kind, x, mask)
    assert (harder.shape, harder.dtype) == (before.shape, before.dtype)
    assert not torch.equal(harder, before)
    assert (harder[~mask] == 0).all()
    assert harder.isfinite().all()


def test_normal_inputs_are_the_contest_s() -> None:
    """Where a shape names no kind, the draw is left alone; an unknown kind is an error."""
    x, mask = _case(padding_ratio=0.5)
    assert altered("normal", x, mask) is x
    with pytest.raises(KeyError):
        altered("soft", x, mask)
    assert {shape.inputs for shape in SHAPES.values()} == {"normal", *KINDS}


def test_near_zero_inputs_give_outputs_near_zero() -> None:
    """In every other token all outputs but two are below the absolute tolerance."""
    config = TransformerConfig(2, 8, 128, 4, 128, 2, True)
    torch.manual_seed(1)
    baseline = BaselineTransformer(config)
    x, mask = generate_random_case(config, CPU, torch.float32, 7, 0.0, 1.0)
    with torch.no_grad():
        output = baseline(altered("near_zero", x, mask), mask)
    assert float(output[:, ::2, 1:-1].abs().max()) < 0.01
    assert float(output[:, ::2, 1:-1].abs().median()) < 0.002
