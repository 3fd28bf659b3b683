"""The sdpa route captured in a CUDA graph: copy in, one replay, copy out."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..levers import Settings
from ..weights import Tensors, Weights
from . import sdpa
from ._attempt import Attempt, no_gpu

SERVES: dict[str, dict[str, str]] = {"safe": {}, "fast": {}, "fp16": {}}
MOST_GRAPHS = 8  # a graph holds its memory
WARM_CALLS = 3  # libraries allocate workspaces at their first calls, which a capture forbids

Run = Callable[[Tensor, "Tensor | None"], Tensor]


class Route(Attempt):
    """One graph for each kind of input and set of weights."""

    ran = "graphed"
    doing = "capture"

    def __init__(self) -> None:
        super().__init__()
        self._graphs = Graphs()

    def refusal(self, x: Tensor, weights: Weights, levers: Settings) -> str:
        """Only CUDA has graphs."""
        return no_gpu(x)

    def attempt(self, x: Tensor, valid: Tensor | None, weights: Weights, levers: Settings) -> Tensor:
        """Replay the graph for this kind of input; captured at the first call."""
        config, tensors = weights.config, weights.tensors(levers.fused_qkv)

        def run(x: Tensor, valid: Tensor | None) -> Tensor:
            heads, causal = config.num_heads, config.causal
            return sdpa.whole(x, valid, tensors, heads, causal, levers.inplace_residual)

        # A graph reads weights where they lay: changed in place they are seen, moved they are another graph.
        return self._graphs.replay(run, x, valid, addresses(tensors))


class Graphs:
    """The latest few graphs, one for each kind of input and whatever else `key` says matters."""

    def __init__(self) -> None:
        self._graphs: dict[tuple[object, ...], Graph] = {}

    def replay(self, run: Run, x: Tensor, valid: Tensor | None, key: tuple[object, ...]) -> Tensor:
        """`run(x, valid)`, captured at the first call of its kind; the result is the caller's own."""
        key = (x.shape, x.dtype, x.device, valid is None, *key)
        graph = self._graphs.pop(key, None) or Graph(run, x, valid)
        self._graphs[key] = graph
        if len(self._graphs) > MOST_GRAPHS:
            del self._graphs[next(iter(self._graphs))]
        return graph.replay(x, valid)


class Graph:
    """A captured `run(x, valid)` with inputs of its own."""

    def __init__(
        self, run: Callable[[Tensor, Tensor | None], Tensor], x: Tensor, valid: Tensor | None
    ) -> None:
        with torch.inference_mode(False), torch.no_grad():
            self._x = torch.empty(x.shape, dtype=x.dtype, device=x.device).copy_(x)
            self._valid = None if valid is None else valid.clone()
            side = torch.cuda.Stream(x.device)  # type: ignore[no-untyped-call]
            side.wait_stream(torch.cuda.current_stream(x.device))
            with torch.cuda.stream(side):
                for _ in range(WARM_CALLS):
                    run(self._x, self._valid)
            torch.cuda.current_stream(x.device).wait_stream(side)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._output = run(self._x, self._valid)

    def replay(self, x: Tensor, valid: Tensor | None) -> Tensor:
        """Run over other values of the same kind; the result is the caller's own."""
        self._x.copy_(x)
        if self._valid is not None and valid is not None:
            self._valid.copy_(valid)
        self._graph.replay()
        return self._output.clone()


def addresses(tensors: Tensors) -> tuple[int, ...]:
    """Where the weights lie."""
    pairs = [pair for layer in tensors.layers for pair in (*layer.qkv, *layer[:1], *layer[2:])]
    return tuple(tensor.data_ptr() for pair in (*pairs, tensors.final_norm) for tensor in pair)
