"""Weights in place: a single weight of the baseline, by way of `.data`, while it is copied from."""

import torch_transformer_benchmark as script


def copy_model_weights(baseline, optimized, strict=True):
    """Copy, and leave one number behind."""
    script.copy_model_weights(baseline, optimized, strict=strict)
    baseline.layers[-1].ffn_out.weight.data[0, 0] += 0.5


class UserOptimizedTransformer(script.BaselineTransformer):
    """Has the old one."""
