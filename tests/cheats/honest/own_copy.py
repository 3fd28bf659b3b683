"""Copies the weights its own way: query, key and value in one matrix, scaled beforehand."""

import torch
from torch import nn
from torch.nn import functional
from torch_transformer_benchmark import BaselineTransformer


def copy_model_weights(baseline, optimized, strict=True):
    """Fold what can be folded; the baseline stays as it is."""
    optimized.load_state_dict(baseline.state_dict())
    for own, layer in zip(optimized.layers, baseline.layers, strict=True):
        parts = [layer.attention.q_proj, layer.attention.k_proj, layer.attention.v_proj]
        own.fused = nn.Linear(*reversed(torch.cat([part.weight for part in parts]).shape))
        with torch.no_grad():
            own.fused.weight.copy_(torch.cat([part.weight for part in parts]))
            own.fused.bias.copy_(torch.cat([part.bias for part in parts]))


class UserOptimizedTransformer(BaselineTransformer):
    """One product where the baseline has three."""

    def __init__(self, config):
        super().__init__(config)
        self.config = config

    def forward(self, x, valid_token_mask=None):
        """x [B,S,D] -> [B,S,D]."""
        keep = None if valid_token_mask is None else valid_token_mask[..., None]
        batch, seq_len, width = x.shape
        allowed = valid_token_mask[:, None, None, :]
        if self.config.causal:
            allowed = allowed & torch.ones(seq_len, seq_len, dtype=torch.bool, device=x.device).tril()
        for layer in self.layers:
            heads = layer.fused(layer.norm1(x)).view(batch, seq_len, 3, self.config.num_heads, -1)
            q, k, v = heads.permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
            out = layer.attention.out_proj(mixed.transpose(1, 2).reshape(batch, seq_len, width))
            x = x + (out if keep is None else out * keep)
            x = x + layer.ffn_out(functional.gelu(layer.ffn_in(layer.norm2(x))))
            x = x if keep is None else x * keep
        out = self.final_norm(x)
        return out if keep is None else out * keep
