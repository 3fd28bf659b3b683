"""A contest entry in two files: this one and the helper beside it."""

from its_helper import attend, zero_padding
from torch import nn
from torch_transformer_benchmark import BaselineTransformer


class UserOptimizedTransformer(BaselineTransformer):
    """The baseline's parameters, the helper's attention."""

    def forward(self, x, valid_token_mask=None):
        """x [B,S,D], valid_token_mask [B,S] -> [B,S,D]."""
        for layer in self.layers:
            y = attend(layer.attention, layer.norm1(x), self.config, valid_token_mask)
            x = x + zero_padding(y, valid_token_mask)
            x = x + layer.ffn_out(nn.functional.gelu(layer.ffn_in(layer.norm2(x))))
            x = zero_padding(x, valid_token_mask)
        return zero_padding(self.final_norm(x), valid_token_mask)
