"""Changes how the whole process multiplies."""

import torch

from faulty.sound import UserOptimizedTransformer as Sound


class UserOptimizedTransformer(Sound):
    """Takes the baseline's TF32 away."""

    def __init__(self, config):
        super().__init__(config)
        torch.set_float32_matmul_precision("highest")
