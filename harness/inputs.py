"""The contest's random inputs, and what a harder case makes of them."""

from __future__ import annotations

from collections.abc import Callable

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


def _outliers(x: Tensor) -> Tensor:
    """Every 16th feature 50 times as large."""
    x[..., ::16] *= 50
    return x


def _near_zero(x: Tensor) -> Tensor:
    """Two huge features of opposite sign in every other token: its other outputs come close to zero.

    The final LayerNorm divides by a deviation that is theirs alone.
    """
    x[:, ::2, 0] += 1e4
    x[:, ::2, -1] -= 1e4
    return x


KINDS: dict[str, Callable[[Tensor], Tensor]] = {
    "small": lambda x: x * 1e-3,
    "large": lambda x: x * 1e2,
    "offset": lambda x: x + 100,
    "outliers": _outliers,
    "near_zero": _near_zero,
}


def altered(kind: str, x: Tensor, valid_token_mask: Tensor) -> Tensor:
    """Return drawn inputs [B,S,D] made harder in the named way, zero where a token does not count; uses up x.

    Raises KeyError for an unknown name.
    """
    if kind == "normal":
        return x
    return KINDS[kind](x).masked_fill_(~valid_token_mask[..., None], 0.0)
