"""Input in place: by way of `.data`, which no version counter sees."""

from torch_transformer_benchmark import BaselineTransformer as Base


class UserOptimizedTransformer(Base):
    """Leaves a mess."""

    def forward(self, x, valid_token_mask=None):
        """x [B,S,D] -> [B,S,D]."""
        y = Base.forward(self, x, valid_token_mask)
        x.data[-1, -1, -1] += 1
        return y
