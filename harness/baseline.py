"""The contest's baseline transformer: its configuration, its arithmetic, its state-dict keys.

A pre-norm encoder with explicit attention.
B, S, D, H, F, L = batch, sequence, width, heads, FFN width, layers.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class TransformerConfig:
    """One problem size, in the contest's positional order."""

    batch_size: int
    seq_len: int
    d_model: int
    num_heads: int
    ffn_dim: int
    num_layers: int
    causal: bool

    def validate(self) -> None:
        """Raise ValueError unless every size is positive and the heads divide the width."""
        for name in ("batch_size", "seq_len", "d_model", "num_heads", "ffn_dim", "num_layers"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, it is {getattr(self, name)}")
        if self.d_model % self.num_heads:
            raise ValueError(f"num_heads={self.num_heads} does not divide d_model={self.d_model}")


def _zero_padding(x: Tensor, valid_token_mask: Tensor | None) -> Tensor:
    # Filled, not multiplied: 0 * nan is nan.
    return x if valid_token_mask is None else x.masked_fill(~valid_token_mask[..., None], 0.0)


class BaselineSelfAttention(nn.Module):
    """Multi-head attention with all S x S scores in memory and the softmax in float32."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"num_heads={num_heads} does not divide d_model={d_model}")
        self.d_model = d_model
        self.num_heads = num_heads
        self.head_dim = d_model // num_heads
        self.scale = self.head_dim**-0.5
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def _split_heads(self, x: Tensor) -> Tensor:
        batch, seq_len, _ = x.shape
        return x.view(batch, seq_len, self.num_heads, self.head_dim).transpose(1, 2).contiguous()

    def forward(self, x: Tensor, valid_token_mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """Map x [B,S,D] to [B,S,D]; valid_token_mask [B,S] is True where a token counts."""
        q = self._split_heads(self.q_proj(x))
        k = self._split_heads(self.k_proj(x))
        v = self._split_heads(self.v_proj(x))
        scores = (q @ k.transpose(-2, -1)) * self.scale
        if causal:
            seq_len = x.shape[1]
            future = torch.ones(seq_len, seq_len, dtype=torch.bool, device=x.device).triu(diagonal=1)
            scores = scores.masked_fill(future, float("-inf"))
        if valid_token_mask is not None:
            scores = scores.masked_fill(~valid_token_mask[:, None, None, :], float("-inf"))
        weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(x.dtype)
        merged = (weights @ v).transpose(1, 2).reshape(x.shape)
        return _zero_padding(self.out_proj(merged), valid_token_mask)


class BaselineTransformerBlock(nn.Module):
    """One pre-norm layer: attention and a GELU feed-forward, each added to its input."""

    def __init__(self, d_model: int, num_heads: int, ffn_dim: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(d_model)
        self.attention = BaselineSelfAttention(d_model, num_heads)
        self.norm2 = nn.LayerNorm(d_model)
        self.ffn_in = nn.Linear(d_model, ffn_dim)
        self.ffn_out = nn.Linear(ffn_dim, d_model)

    def forward(self, x: Tensor, valid_token_mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """Map x [B,S,D] to [B,S,D] with zeros where valid_token_mask [B,S] is False."""
        x = x + self.attention(self.norm1(x), valid_token_mask, causal)
        x = x + self.ffn_out(functional.gelu(self.ffn_in(self.norm2(x))))
        return _zero_padding(x, valid_token_mask)


class BaselineTransformer(nn.Module):
    """The reference of the contest: L blocks and a final LayerNorm."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        config.validate()
        self.config = config
        self.layers = nn.ModuleList(
            BaselineTransformerBlock(config.d_model, config.num_heads, config.ffn_dim)
            for _ in range(config.num_layers)
        )
        self.final_norm = nn.LayerNorm(config.d_model)

    def forward(self, x: Tensor, valid_token_mask: Tensor | None = None) -> Tensor:
        """Map x [B,S,D] to [B,S,D] with zeros where valid_token_mask [B,S] is False."""
        for layer in self.layers:
            x = layer(x, valid_token_mask, self.config.causal)
        return _zero_padding(self.final_norm(x), valid_token_mask)


class UserOptimizedTransformer(BaselineTransformer):
    """The contest's stub: the class that a candidate replaces. Keep `forward` and the shape it returns.

    Parameter names other than the baseline's need a `copy_model_weights` of the candidate's own.
    """

    def forward(self, x: Tensor, valid_token_mask: Tensor | None = None) -> Tensor:
        """Do what the baseline does."""
        return super().forward(x, valid_token_mask)


def copy_model_weights(baseline: nn.Module, optimized: nn.Module, strict: bool = True) -> None:
    """Load a deep copy of the baseline's state dict. Strict: RuntimeError when the keys differ."""
    optimized.load_state_dict(copy.deepcopy(baseline.state_dict()), strict=strict)
