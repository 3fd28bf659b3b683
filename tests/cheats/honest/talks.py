"""Prints, warns, logs, and starts a compiler to see whether there is one."""

import logging
import subprocess
import sys

from torch_transformer_benchmark import BaselineTransformer


class UserOptimizedTransformer(BaselineTransformer):
    """Talks while it works."""

    def __init__(self, config):
        super().__init__(config)
        logging.getLogger(__name__).warning("building for %s", config)
        subprocess.run([sys.executable, "-c", "print('a child of the entry')"], check=True)

    def forward(self, x, valid_token_mask=None):
        """x [B,S,D] -> [B,S,D]."""
        print("forward of", tuple(x.shape), flush=True)
        return super().forward(x, valid_token_mask)
