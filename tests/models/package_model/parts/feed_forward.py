"""The feed-forward half of a block."""

from torch.nn.functional import gelu


def feed_forward(layer, x):
    """x [B,S,D] -> [B,S,D]."""
    return layer.ffn_out(gelu(layer.ffn_in(x)))
