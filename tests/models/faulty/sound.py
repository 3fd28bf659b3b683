"""Does what the baseline does, and says which route ran."""

import os

from torch_transformer_benchmark import BaselineTransformer


class UserOptimizedTransformer(BaselineTransformer):
    """The baseline under another name."""

    def __init__(self, config):
        super().__init__(config)
        self.route_ran = os.environ.get("LEVER_ROUTE", "eager")
        self.compile_s = None

    def forward(self, x, valid_token_mask=None):
        """x [B,S,D], valid_token_mask [B,S] -> [B,S,D]."""
        return super().forward(x, valid_token_mask)
