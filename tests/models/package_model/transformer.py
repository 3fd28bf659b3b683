"""The model of the package."""

from torch_transformer_benchmark import BaselineTransformer

from .parts.attention import attend
from .parts.feed_forward import feed_forward
from .parts.padding import zero_padding


class UserOptimizedTransformer(BaselineTransformer):
    """The baseline's parameters, the package's own parts."""

    def forward(self, x, valid_token_mask=None):
        """x [B,S,D], valid_token_mask [B,S] -> [B,S,D]."""
        for layer in self.layers:
            x = x + attend(layer.attention, layer.norm1(x), self.config, valid_token_mask)
            x = zero_padding(x + feed_forward(layer, layer.norm2(x)), valid_token_mask)
        return zero_padding(self.final_norm(x), valid_token_mask)
