"""The contest's random inputs."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.baseline import TransformerConfig
from harness.inputs import generate_random_case

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
