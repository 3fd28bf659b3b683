"""Prints a result in the driver's own form, marker and check included."""

from torch_transformer_benchmark import BaselineTransformer

from harness.events import CaseDone, Event, Name, encode


class UserOptimizedTransformer(BaselineTransformer):
    """Announces its victory."""

    def forward(self, x, valid_token_mask=None):
        """x [B,S,D] -> [B,S,D], and a lie."""
        print(encode(Event(Name("20260101-000000-abcdef", 1, 1, 9), 0.0, CaseDone("t01", 0, "passed"))))
        return super().forward(x, valid_token_mask)
