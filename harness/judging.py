"""The judge's desk: the reference, and the gate over what the worker hands in."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from harness import observing, reference
from harness.blocks import CROSSING_ELEMENTS, blocks
from harness.candidate import load_contract
from harness.channel import Build, Check, Done, Figures, Hello, Load, Message, Ready, Rest
from harness.drawing import Drawn, describe, draw, free_memory, take_device
from harness.gate import worst_share
from harness.ledger import Ledger
from harness.oracle import full_float32


class Desk:
    """Answers the driver. One baseline at a time lies on the device."""

    def __init__(self, device: str) -> None:
        self._device = take_device(device)
        self._contract: ModuleType | None = None
        self._drawn: Drawn | None = None

    def answer(self, request: Message) -> Message:
        """Do what is asked and say what came of it."""
        match request:
            case Hello():
                return Ready(describe(self._device))
            case Load(own_harness=own_harness):
                self._contract = load_contract(own_harness)
            case Build(case=case, weight_seed=seed):
                assert self._contract is not None
                self._drawn = None
                self._drawn = draw(self._contract, case, seed, self._device)
                self._drawn.placed(self._drawn.baseline)
            case Check():
                return self._check(request)
            case Rest():
                self._drawn = None
                gc.collect()
                free_memory(self._device)
            case _:
                raise TypeError(f"the judge has no answer to {type(request).__name__}")
        return Done()

    def _check(self, request: Check) -> Figures:
        assert self._drawn is not None
        try:
            with torch.inference_mode():
                return _figures(self._drawn, request)
        finally:
            Path(request.path).unlink(missing_ok=True)
            free_memory(self._device)


def _figures(drawn: Drawn, request: Check) -> Figures:
    """Compare an output with its reference, part by part; the output crosses to the device in blocks."""
    x, mask = drawn.inputs(request.input_seed)
    size, dtype = x.numel(), getattr(torch, request.dtype)
    output = torch.from_file(request.path, shared=True, size=size, dtype=dtype).view(x.shape)
    ledger = Ledger(drawn, "oracle" if request.oracle_s else "baseline")
    dtype_share = None
    for rows, expected in _references(drawn, x, mask, request):
        for block in blocks(expected.shape, CROSSING_ELEMENTS):
            ledger.add(rows.start, block, expected[block], output[rows][block].to(drawn.device))
        if _is_recomputed(drawn, request, dtype_share):
            dtype_share = max(dtype_share or 0.0, _dtype_share(drawn, x[rows], mask[rows], expected, request))
    return ledger.figures(size, dtype_share)


def _references(drawn: Drawn, x: Tensor, mask: Tensor, request: Check) -> Iterator[reference.Part]:
    if request.oracle_s:
        return reference.by_oracle(drawn, x, mask, request.input_seed, request.oracle_s)
    return reference.by_baseline(drawn, x, mask)


def _is_recomputed(drawn: Drawn, request: Check, dtype_share: float | None) -> bool:
    """Whether a part's reference is held against itself in float32: where its arithmetic is coarser.

    The oracle never uses TF32, and one of its sequences is enough.
    """
    if not request.recompute or (request.oracle_s and dtype_share is not None):
        return False
    state = observing.precision_state()
    uses_tf32 = not request.oracle_s and observing.tf32_text(drawn.device, state, state) == "on"
    return drawn.dtype != torch.float32 or uses_tf32


def _dtype_share(drawn: Drawn, x: Tensor, mask: Tensor, expected: Tensor, request: Check) -> float:
    """Return the share of its budget that the reference itself uses, held against itself in full float32."""
    exact, worst = reference.in_float32(drawn), 0.0
    with full_float32():
        for rows, better in _references(exact, x.float(), mask, request):
            found = worst_share(better, expected[rows], drawn.settings.rtol, drawn.settings.atol)
            worst = max(worst, found.share)
    return worst
