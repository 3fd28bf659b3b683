"""The contest's random inputs."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.baseline import TransformerConfig


def generate_random_case(
    config: TransformerConfig,
    device: torch.device,
    dtype: torch.dtype,
    seed: int,
    padding_ratio: float,
    input_scale: float,
) -> tuple[Tensor, Tensor]:
    """Return x [B,S,D] and valid_token_mask [B,S], drawn by a generator of its own on the device.

    The mask is always a tensor; each of its rows is a prefix of at least S * (1 - padding_ratio) tokens,
    and x is zero after it. The same seed draws other numbers on another kind of device.
    """
    generator = torch.Generator(device=device).manual_seed(seed)
    batch, seq_len = config.batch_size, config.seq_len
    x = torch.randn(batch, seq_len, config.d_model, generator=generator, device=device, dtype=dtype)
    x = x * input_scale
    if padding_ratio <= 0:
        return x, torch.ones(batch, seq_len, dtype=torch.bool, device=device)
    shortest = max(1, round(seq_len * (1 - padding_ratio)))
    lengths = torch.randint(shortest, seq_len + 1, (batch,), generator=generator, device=device)
    valid_token_mask = torch.arange(seq_len, device=device) < lengths[:, None]
    return x.masked_fill(~valid_token_mask[..., None], 0.0), valid_token_mask
