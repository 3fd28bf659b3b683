"""The drop-in transformer.

    from model import OptimizedTransformer
    model = OptimizedTransformer(config)                      # reads the levers
    model.load_state_dict(baseline.state_dict(), strict=True)
    y = model(x, valid_token_mask)                            # [B,S,D]; model.route_ran says how

B, S, D, H, F, L = batch, sequence, width, heads, FFN width, layers.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from . import chunking, levers, router
from .padding import Padding
from .weights import Config, Weights

Forward = Callable[[Tensor, "Tensor | None"], Tensor]


class OptimizedTransformer(Weights):
    """The contest's transformer for inference, run by the route that `LEVER_ROUTE` names.

    After a forward: `route_ran`, the route that did the work; `route_note`, why when it is not the one asked
    for; `compile_s`, seconds spent compiling; `chunk_rows`, rows of a chunk when the batch was run in chunks.
    Its parameters are NaN until loaded. Raises ValueError for an unknown lever.
    """

    route_ran: str
    route_note: str
    compile_s: float | None
    chunk_rows: int | None

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._levers = levers.read()
        self._route = router.load(self._levers.route)
        self._rows: dict[tuple[object, ...], int] = {}
        self._report(None)

    @torch.no_grad()
    def forward(self, x: Tensor, valid_token_mask: Tensor | None = None) -> Tensor:
        """Map x [B,S,D] to a fresh [B,S,D], zeros where valid_token_mask [B,S] is False; no gradients."""
        if torch.compiler.is_compiling():
            # Somebody compiles the model from outside. It plans, and may compile itself: not to be traced.
            untraced: Callable[[Forward], Forward] = torch.compiler.disable
            return untraced(self._forward)(x, valid_token_mask)
        return self._forward(x, valid_token_mask)

    def _forward(self, x: Tensor, valid_token_mask: Tensor | None) -> Tensor:
        padding = Padding.of(valid_token_mask)
        kind = x.shape, x.dtype, x.device, padding.holes
        planned = self._rows.get(kind) or self._plan(x, padding)
        output, rows = chunking.run_in_chunks(self._runner(x, padding), x, planned)
        # What fitted once is kept: one answer for one shape, and no figure is asked of the driver again.
        self._rows[kind] = rows
        self._report(rows if rows < len(x) else None)
        return output

    @torch.no_grad()
    def chunk_difference(self, x: Tensor, valid_token_mask: Tensor | None = None) -> float:
        """The largest absolute difference that chunks make to the first rows of x, as many as fit at once.

        Compares them in one piece with the same in two halves; call it after a forward of x.
        """
        run = self._runner(x, Padding.of(valid_token_mask))
        rows = self.chunk_rows or len(x)
        half = -(-rows // 2)
        whole = run(0, rows)
        spans = ((start, min(start + half, rows)) for start in range(0, rows, half))
        worst = [run(start, stop).sub_(whole[start:stop]).abs_().max() for start, stop in spans]
        return float(torch.stack(worst).max())

    def _runner(self, x: Tensor, padding: Padding) -> Callable[[int, int], Tensor]:
        def run(start: int, stop: int) -> Tensor:
            return self._route.run(x[start:stop], padding.rows(start, stop), self, self._levers)

        return run

    def _plan(self, x: Tensor, padding: Padding) -> int:
        if self._levers.chunk is not None:
            return min(self._levers.chunk, len(x))
        row_bytes = self._route.bytes_per_row(x, padding, self)
        output_bytes, free = x.numel() * x.element_size(), chunking.free_bytes(x.device)
        return chunking.plan_rows(len(x), row_bytes, output_bytes, free, x.element_size())

    def _report(self, chunk_rows: int | None) -> None:
        self.route_ran, self.route_note = self._route.ran, self._route.note
        self.compile_s, self.chunk_rows = self._route.compile_s, chunk_rows


UserOptimizedTransformer = OptimizedTransformer
