"""Captures a graph for each shape, feeds it by a copy, and hands out a copy of its static output."""

import torch
from torch_transformer_benchmark import BaselineTransformer


class UserOptimizedTransformer(BaselineTransformer):
    """Replays."""

    def __init__(self, config):
        super().__init__(config)
        self.graphs = {}

    def forward(self, x, valid_token_mask=None):
        """x [B,S,D] -> [B,S,D]."""
        if not x.is_cuda:
            return super().forward(x, valid_token_mask)
        key = (x.shape, x.dtype)
        if key not in self.graphs:
            self.graphs[key] = self.capture(x, valid_token_mask)
        graph, held, mask, out = self.graphs[key]
        held.copy_(x)
        mask.copy_(valid_token_mask)
        graph.replay()
        return out.clone()

    def capture(self, x, valid_token_mask):
        """Warm up on a stream aside, then capture."""
        held, mask = x.clone(), valid_token_mask.clone()
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):
                super().forward(held, mask)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = super().forward(held, mask)
        return graph, held, mask, out
