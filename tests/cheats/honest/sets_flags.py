"""Sets torch's process-wide switches for itself at import, as many entries do."""

import torch
from torch_transformer_benchmark import BaselineTransformer

torch.set_float32_matmul_precision("high")
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.benchmark = True
torch.set_num_threads(max(1, torch.get_num_threads() - 1))
torch.set_grad_enabled(False)


class UserOptimizedTransformer(BaselineTransformer):
    """Likes its switches so."""
