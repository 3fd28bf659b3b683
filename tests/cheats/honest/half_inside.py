"""Rounds weights, input and output to float16 on the way, as fp16 arithmetic does, and returns float32."""

from torch_transformer_benchmark import BaselineTransformer


class UserOptimizedTransformer(BaselineTransformer):
    """Half inside, whole outside."""

    def forward(self, x, valid_token_mask=None):
        """x [B,S,D] float32 -> [B,S,D] float32 by way of float16 weights."""
        if not hasattr(self, "halves"):
            self.halves = True
            for weight in self.parameters():
                weight.data = weight.data.half().to(weight.dtype)
        return super().forward(x.half().to(x.dtype), valid_token_mask).half().float()
