"""The judge's desk: the reference, and the gate over what the worker hands in."""

from __future__ import annotations

import gc
from pathlib import Path
from types import ModuleType

import torch

from harness.candidate import load_contract
from harness.channel import Build, Check, Done, Figures, Hello, Load, Message, Ready, Rest
from harness.drawing import Drawn, describe, draw, free_memory, take_device
from harness.gate import gate_share


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
            case Check(input_seed=seed, path=path, dtype=dtype):
                return self._check(seed, Path(path), getattr(torch, dtype))
            case Rest():
                self._drawn = None
                gc.collect()
                free_memory(self._device)
            case _:
                raise TypeError(f"the judge has no answer to {type(request).__name__}")
        return Done()

    def _check(self, seed: int, path: Path, dtype: torch.dtype) -> Figures:
        drawn = self._drawn
        assert drawn is not None
        try:
            with torch.inference_mode():
                return self._figures(drawn, seed, path, dtype)
        finally:
            path.unlink(missing_ok=True)
            free_memory(self._device)

    def _figures(self, drawn: Drawn, seed: int, path: Path, dtype: torch.dtype) -> Figures:
        x, mask = drawn.inputs(seed)
        reference = drawn.baseline(x, mask)
        raw = torch.from_file(str(path), shared=True, size=x.numel(), dtype=dtype)
        output = raw.view(x.shape).to(drawn.device)
        tolerances = (drawn.settings.rtol, drawn.settings.atol)
        result = drawn.contract.compare_outputs(reference, output, *tolerances)
        return Figures(
            passed=bool(result.passed),
            failed_elements=int(result.failed_elements),
            total_elements=int(result.total_elements),
            max_abs=float(result.max_abs_error),
            max_rel=float(result.max_relative_error),
            gate_share=float(gate_share(reference, output, *tolerances)),
            rtol=float(drawn.settings.rtol),
            atol=float(drawn.settings.atol),
        )
