"""The baseline's arithmetic, plainly: every score in memory, the softmax in float32, three zeroings."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ..levers import Settings
from ..weights import Attention, Weights
from . import Route as Base

# It serves by being read, and by having the baseline's bits: no choice takes it.
SERVES: dict[str, dict[str, str]] = {}


class Route(Base):
    """Every step of the baseline in its order."""

    ran = "eager"

    def run(self, x: Tensor, valid: Tensor | None, weights: Weights, levers: Settings) -> Tensor:
        """See `routes.Route.run`. No lever changes the arithmetic."""
        del levers
        heads, causal = weights.config.num_heads, weights.config.causal
        for block in weights.blocks:
            x = x + zero(attention(block.norm1(x), block.attention, heads, causal, valid), valid)
            x = zero(x + block.ffn_out(functional.gelu(block.ffn_in(block.norm2(x)))), valid)
        return zero(weights.final_norm(x), valid)

    def bytes_per_row(self, x: Tensor, valid: Tensor | None, weights: Weights, levers: Settings) -> int:
        """Attention: two [H,S,S] in float32, a third in a half type, a mask, seven [S,D]; or feed-forward."""
        del valid, levers
        _, seq_len, width = x.shape
        size = x.element_size()
        score = 8 if size == 4 else size + 8
        scores = seq_len**2 * (weights.config.num_heads * score + 1)
        attention_bytes = scores + 7 * seq_len * width * size
        return max(attention_bytes, seq_len * (2 * width + 2 * weights.config.ffn_dim) * size)


def attention(x: Tensor, part: Attention, heads: int, causal: bool, valid: Tensor | None) -> Tensor:
    """Attention over x [B,S,D] with all scores [B,H,S,S] in memory; keys that do not count are masked."""
    q, k, v = (split(proj(x), heads) for proj in (part.q_proj, part.k_proj, part.v_proj))
    scores = (q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5
    if causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
    if valid is not None:
        scores = scores.masked_fill(~valid[:, None, None, :], float("-inf"))
    shares = torch.softmax(scores, dim=-1, dtype=torch.float32).to(x.dtype)
    merged = (shares @ v).transpose(1, 2).reshape(x.shape)
    return functional.linear(merged, part.out_proj.weight, part.out_proj.bias)


def split(x: Tensor, heads: int) -> Tensor:
    """[B,S,D] to [B,H,S,D/H], contiguous."""
    batch, seq_len, width = x.shape
    return x.view(batch, seq_len, heads, width // heads).transpose(1, 2).contiguous()


def zero(x: Tensor, valid: Tensor | None) -> Tensor:
    """x [B,S,D] with zeros where a token does not count; filled, since nan times 0 is nan."""
    return x if valid is None else x.masked_fill(~valid[..., None], 0.0)
