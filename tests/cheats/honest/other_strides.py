"""Returns a view whose memory lies in another order than its shape."""

from torch_transformer_benchmark import BaselineTransformer


class UserOptimizedTransformer(BaselineTransformer):
    """The last steps in another layout."""

    def forward(self, x, valid_token_mask=None):
        """x [B,S,D] -> [B,S,D], with S outermost in memory."""
        return super().forward(x, valid_token_mask).transpose(0, 1).contiguous().transpose(0, 1)
