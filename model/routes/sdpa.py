"""PyTorch's fused attention: causality inside the call, no S x S mask or score in memory."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from ..levers import Settings
from ..padding import Front
from ..weights import Layer, Pair, Tensors, Weights
from . import Route as Base

SERVES: dict[str, dict[str, str]] = {"safe": {}, "fast": {}, "fp16": {}}


class Route(Base):
    """Calls `whole`; a route that computes the same in another way replaces `compute`."""

    ran = "sdpa"

    def run(self, x: Tensor, valid: Tensor | None, weights: Weights, levers: Settings) -> Tensor:
        """See `routes.Route.run`."""
        config, tensors = weights.config, weights.tensors(levers.fused_qkv)
        return self.compute(x, valid, tensors, config.num_heads, config.causal, levers.inplace_residual)

    def compute(
        self, x: Tensor, valid: Tensor | None, tensors: Tensors, heads: int, causal: bool, inplace: bool
    ) -> Tensor:
        """Compute `whole`."""
        return whole(x, valid, tensors, heads, causal, inplace)

    def bytes_per_row(self, x: Tensor, valid: Tensor | None, weights: Weights, levers: Settings) -> int:
        """The larger of attention (x, q, k, v, result, projection) and feed-forward, and packed copies."""
        del levers
        _, seq_len, width = x.shape
        ffn_dim = weights.config.ffn_dim
        widest = max(6 * width, 2 * width + ffn_dim, width + 2 * ffn_dim)
        packed = 2 * width if weights.config.causal and valid is not None else 0
        row_sums = 4 * seq_len * weights.config.num_heads
        return seq_len * (widest + packed) * x.element_size() + row_sums


def whole(
    x: Tensor, valid: Tensor | None, tensors: Tensors, heads: int, causal: bool, inplace: bool
) -> Tensor:
    """The whole model over x [B,S,D] with any mask [B,S], turned into one that needs no S x S tensor.

    Causal: valid tokens are moved to the front, so that no valid one sees a padded one, and back afterwards.
    Whether that is needed only the device knows, and asking would make the host wait in every forward.
    Not causal: the keys' mask [B,1,1,S] is broadcast.
    """
    if valid is None or not causal:
        return stack(x, valid, tensors, heads, causal, inplace)
    front = Front.of(valid)
    return front.unpack(stack(front.pack(x), front.valid, tensors, heads, causal, inplace))


def stack(
    x: Tensor, valid: Tensor | None, tensors: Tensors, heads: int, causal: bool, inplace: bool
) -> Tensor:
    """The whole model over x [B,S,D]; valid [B,S], and if causal each row of it is a prefix.

    Rows that do not count are zeroed after each layer and at the end. Inside a layer they cannot reach a row
    that counts, so zeroing the attention's output too would change nothing.
    """
    pad = None if valid is None else ~valid[..., None]
    keys = None if valid is None or causal else valid[:, None, None, :]
    for layer in tensors.layers:
        x = add(x, attend(x, layer, heads, causal, keys), inplace)
        x = add(x, feed_forward(x, layer), inplace)
        if pad is not None:
            x.masked_fill_(pad, 0.0)
    x = norm(x, tensors.final_norm)
    return x if pad is None else x.masked_fill_(pad, 0.0)


def add(x: Tensor, branch: Tensor, inplace: bool) -> Tensor:
    """x + branch, in place in the branch, which is always ours; the first x is the caller's."""
    return branch.add_(x) if inplace else x + branch


def attend(x: Tensor, layer: Layer, heads: int, causal: bool, keys: Tensor | None) -> Tensor:
    """Normalise, attend and project x [B,S,D]; keys [B,1,1,S] is True where a key counts."""
    q, k, v = project(norm(x, layer.norm1), layer.qkv, heads)
    merged = functional.scaled_dot_product_attention(q, k, v, attn_mask=keys, is_causal=causal)
    return functional.linear(merged.transpose(1, 2).reshape(x.shape), *layer.out)


def project(x: Tensor, qkv: tuple[Pair, ...], heads: int) -> tuple[Tensor, ...]:
    """q, k and v [B,H,S,D/H] of x [B,S,D]: views of what the one or three products wrote."""
    batch, seq_len, width = x.shape
    products = [functional.linear(x, *pair).view(batch, seq_len, -1, heads, width // heads) for pair in qkv]
    return tuple(part.transpose(1, 2) for product in products for part in product.unbind(2))


def feed_forward(x: Tensor, layer: Layer) -> Tensor:
    """Normalise x [B,S,D], widen to F, GELU, back to D."""
    hidden = functional.gelu(functional.linear(norm(x, layer.norm2), *layer.ffn_in))
    return functional.linear(hidden, *layer.ffn_out)


def norm(x: Tensor, pair: Pair) -> Tensor:
    """LayerNorm over the last dimension with eps 1e-5, as `nn.LayerNorm`."""
    return functional.layer_norm(x, x.shape[-1:], *pair)
