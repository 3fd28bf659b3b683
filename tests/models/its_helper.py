"""What `with_helper.py` imports by its plain name."""

from torch import nn


def zero_padding(x, mask):
    """Zero the rows of padding tokens. x [B,S,D], mask [B,S]."""
    return x if mask is None else x * mask[..., None].to(x.dtype)


def attend(attention, x, config, mask):
    """Attention in one call. x [B,S,D] -> [B,S,D]."""
    q, k, v = (
        nn.functional.linear(x, projection.weight, projection.bias)
        .unflatten(2, (config.num_heads, -1))
        .transpose(1, 2)
        for projection in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    keys = None if config.causal or mask is None else mask[:, None, None, :]
    y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=keys, is_causal=config.causal)
    return attention.out_proj(y.transpose(1, 2).flatten(2))
