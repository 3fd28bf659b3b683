"""Works on a stream of its own and has the caller's stream wait for it, as it should be done."""

import torch
from torch_transformer_benchmark import BaselineTransformer


class UserOptimizedTransformer(BaselineTransformer):
    """Goes aside and comes back."""

    def forward(self, x, valid_token_mask=None):
        """x [B,S,D] -> [B,S,D]."""
        if not x.is_cuda:
            return super().forward(x, valid_token_mask)
        if not hasattr(self, "aside"):
            self.aside = torch.cuda.Stream()
        caller = torch.cuda.current_stream()
        self.aside.wait_stream(caller)
        with torch.cuda.stream(self.aside):
            out = super().forward(x, valid_token_mask)
        caller.wait_stream(self.aside)
        out.record_stream(caller)
        return out
