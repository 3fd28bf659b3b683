"""The drop-in transformer.

    from model import OptimizedTransformer
    model = OptimizedTransformer(config)                      # reads the levers
    model.load_state_dict(baseline.state_dict(), strict=True)
    y = model(x, valid_token_mask)                            # [B,S,D]; model.route_ran says how

B, S, D, H, F, L = batch, sequence, width, heads, FFN width, layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from . import chunking, levers, padding
from .choosing import Choices
from .chunking import Piece
from .routes import Route
from .weights import Config, Weights

Forward = Callable[[Tensor, "Tensor | None"], Tensor]


@dataclass
class Plan:
    """How one kind of input is run: by a route under settings, such a piece at once.

    `note` says which route was to run and refused.
    """

    route: Route
    settings: levers.Settings
    note: str
    piece: Piece


class OptimizedTransformer(Weights):
    """The contest's transformer for inference, run by the route that `LEVER_ROUTE` names.

    After a forward: `route_ran`, the route that did the work; `route_note`, why when it is not the one asked
    for; `compile_s`, seconds spent compiling; `chunk_rows`, rows of a chunk when the batch was run in chunks;
    `chunk_tokens`, those of a part when sequences were run in parts.
    Its parameters are NaN until loaded. Raises ValueError for an unknown lever.
    """

    route_ran: str
    route_note: str
    compile_s: float | None
    chunk_rows: int | None
    chunk_tokens: int | None

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._levers = levers.read()
        self._choices = Choices(self._levers)
        self._plans: dict[tuple[object, ...], Plan] = {}
        self.route_ran, self.route_note = self._levers.route, ""
        self.compile_s = self.chunk_rows = self.chunk_tokens = None

    def forward(self, x: Tensor, valid_token_mask: Tensor | None = None) -> Tensor:
        """Map x [B,S,D] to a fresh [B,S,D], zeros where valid_token_mask [B,S] is False; no gradients."""
        if torch.compiler.is_compiling():
            # Somebody compiles the model from outside. It plans, and may compile itself: not to be traced.
            untraced: Callable[[Forward], Forward] = torch.compiler.disable
            return untraced(self._without_grad)(x, valid_token_mask)
        return self._without_grad(x, valid_token_mask)

    def _without_grad(self, x: Tensor, valid_token_mask: Tensor | None) -> Tensor:
        if torch.is_grad_enabled():  # entering no_grad costs a small forward's host microseconds
            with torch.no_grad():
                return self._forward(x, valid_token_mask)
        return self._forward(x, valid_token_mask)

    def _forward(self, x: Tensor, valid_token_mask: Tensor | None) -> Tensor:
        kind = x.shape, x.dtype, x.device, valid_token_mask is None
        plan = self._plans.get(kind)
        if plan is None:
            # Kept: one answer for one kind of input, and no figure is asked of the driver again.
            plan = self._plans[kind] = self._plan(x, valid_token_mask)
        output, plan.piece = chunking.run_in_chunks(self._runner(plan, x, valid_token_mask), x, plan.piece)
        self._report(plan, x.shape)
        return output

    @torch.no_grad()
    def chunk_difference(self, x: Tensor, valid_token_mask: Tensor | None = None) -> float:
        """The largest absolute difference that chunks make to the first rows of x, as many as fit at once.

        Compares them in one piece with the same in two halves, or in smaller parts of the sequence; call it
        after a forward of x.
        """
        plan = self._plans[x.shape, x.dtype, x.device, valid_token_mask is None]
        run, piece = self._runner(plan, x, valid_token_mask), plan.piece
        half, rows = piece.halved() or piece, piece.rows
        whole = run(0, rows, piece.tokens)
        spans = ((start, min(start + half.rows, rows)) for start in range(0, rows, half.rows))
        worst = [run(*span, half.tokens).sub_(whole[slice(*span)]).abs_().max() for span in spans]
        return float(torch.stack(worst).max())

    def _runner(self, plan: Plan, x: Tensor, valid: Tensor | None) -> Callable[[int, int, int], Tensor]:
        batch, seq_len, _ = x.shape

        def run(start: int, stop: int, tokens: int) -> Tensor:
            settings = plan.settings if tokens == seq_len else replace(plan.settings, tokens=tokens)
            if stop - start == batch:  # views cost a small forward's host a tenth of its time
                return plan.route.run(x, valid, self, settings)
            part = padding.rows(valid, start, stop)
            return plan.route.run(x[start:stop], part, self, settings)

        return run

    def _plan(self, x: Tensor, valid: Tensor | None) -> Plan:
        route, settings, note = self._choices.take(x, self)
        batch, seq_len = x.shape[:2]
        parts = route.parts(x, self, settings)
        if settings.chunk is not None or (parts and settings.tokens is not None):
            least = min(chunking.STEP, seq_len) if parts else seq_len
            tokens = min(settings.tokens or seq_len, seq_len) if parts else seq_len
            rows = 1 if tokens < seq_len else min(settings.chunk or batch, batch)
            return Plan(route, settings, note, Piece(rows, tokens, least))
        row_bytes = route.bytes_per_row(x, valid, self, settings)
        output_bytes, free = x.numel() * x.element_size(), chunking.free_bytes(x.device)
        piece = chunking.plan(batch, seq_len, row_bytes, parts, output_bytes, free, x.element_size())
        return Plan(route, settings, note, piece)

    def _report(self, plan: Plan, shape: torch.Size) -> None:
        route, (rows, tokens, _) = plan.route, plan.piece
        self.route_ran, self.compile_s = route.ran, route.compile_s
        self.route_note = route.note or plan.note
        in_parts = tokens < shape[1]
        self.chunk_rows = rows if in_parts or rows < shape[0] else None
        self.chunk_tokens = tokens if in_parts else None


UserOptimizedTransformer = OptimizedTransformer
