"""A contest entry with parameters of its own: one fused projection, other names, its own weight copy."""

import torch
from torch import nn
from torch_transformer_benchmark import BaselineTransformer


class Block(nn.Module):
    """Pre-norm block with q, k and v in one matrix product."""

    def __init__(self, width, heads, hidden):
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.before_ffn = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x, mask, causal):
        """x [B,S,D], mask [B,S] -> [B,S,D]."""
        qkv = self.qkv(self.before_attention(x)).unflatten(2, (3, self.heads, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        keys = None if causal else mask[:, None, None, :]
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=keys, is_causal=causal)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.before_ffn(x))))


class UserOptimizedTransformer(BaselineTransformer):
    """Shares the baseline's type and none of its parameters."""

    def __init__(self, config):
        nn.Module.__init__(self)
        self.config = config
        sizes = config.d_model, config.num_heads, config.ffn_dim
        self.blocks = nn.ModuleList([Block(*sizes) for _ in range(config.num_layers)])
        self.last = nn.LayerNorm(config.d_model)

    def forward(self, x, valid_token_mask=None):
        """x [B,S,D], valid_token_mask [B,S] -> [B,S,D]."""
        if valid_token_mask is None:
            valid_token_mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        for block in self.blocks:
            x = block(x, valid_token_mask, self.config.causal)
        return self.last(x).masked_fill(~valid_token_mask[..., None], 0.0)


NAMES = {
    "norm1": "before_attention",
    "attention.out_proj": "out",
    "norm2": "before_ffn",
    "ffn_in": "up",
    "ffn_out": "down",
}


def copy_model_weights(baseline, optimized, strict=True):
    """Rename the baseline's parameters and stack its three projections."""
    source = baseline.state_dict()
    target = {}
    for kind in ("weight", "bias"):
        target[f"last.{kind}"] = source[f"final_norm.{kind}"]
        for i in range(len(optimized.blocks)):
            for theirs, ours in NAMES.items():
                target[f"blocks.{i}.{ours}.{kind}"] = source[f"layers.{i}.{theirs}.{kind}"]
            parts = [source[f"layers.{i}.attention.{name}_proj.{kind}"] for name in "qkv"]
            target[f"blocks.{i}.qkv.{kind}"] = torch.cat(parts)
    optimized.load_state_dict(target, strict=strict)
