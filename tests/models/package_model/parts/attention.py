"""Attention with one stacked projection."""

import torch
from torch import nn

from package_model.parts.padding import zero_padding


def attend(attention, x, config, mask):
    """x [B,S,D], mask [B,S] -> [B,S,D]."""
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    weight = torch.cat([projection.weight for projection in projections])
    bias = torch.cat([projection.bias for projection in projections])
    q, k, v = (
        nn.functional.linear(x, weight, bias).unflatten(2, (3, config.num_heads, -1)).permute(2, 0, 3, 1, 4)
    )
    keys = None if config.causal or mask is None else mask[:, None, None, :]
    y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=keys, is_causal=config.causal)
    return zero_padding(attention.out_proj(y.transpose(1, 2).flatten(2)), mask)
