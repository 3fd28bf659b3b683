"""The worker's desk: builds the candidate as the contest's script does, runs it, and times both sides."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from harness import observing, what_ran
from harness.candidate import load_candidate, load_contract
from harness.channel import (
    Build,
    Done,
    Facts,
    Forward,
    Hello,
    Load,
    Look,
    Looked,
    Message,
    Output,
    Ready,
    Time,
    Timed,
)
from harness.drawing import Drawn, describe, draw, free_memory, take_device
from harness.events import SAMPLES_PER_EVENT, Samples, pack_ns
from harness.timing import SEED_OFFSET

NOTE_CHARACTERS = 1000


@dataclass
class Built:
    """What one case needs: the drawn baseline and the candidate beside it."""

    drawn: Drawn
    candidate: nn.Module
    precision: str  # the state of the global flags before there was a candidate


class Desk:
    """Answers the driver. One case at a time."""

    def __init__(self, device: str) -> None:
        self._device = take_device(device)
        self._contract: ModuleType | None = None
        self._loaded: Any = None
        self._built: Built | None = None
        self._facts = Facts()

    def answer(self, request: Message) -> Message:
        """Do what is asked and say what came of it."""
        match request:
            case Hello():
                return Ready(describe(self._device))
            case Load():
                self._contract = load_contract(request.own_harness)
                self._loaded = load_candidate(request.model)
            case Build():
                self._build(request)
            case Forward():
                return self._forward(request)
            case Time():
                return self._time()
            case Look():
                return self._look(request)
            case _:
                raise TypeError(f"the worker has no answer to {type(request).__name__}")
        return Done()

    # --- building -----------------------------------------------------------------------------------------

    def _build(self, request: Build) -> None:
        assert self._contract is not None
        if self._built is None or self._built.drawn.case != request.case:
            self._facts = Facts()
        self._built = None
        gc.collect()
        free_memory(self._device)
        drawn = draw(self._contract, request.case, request.weight_seed, self._device)
        precision = observing.precision_state()
        candidate = self._loaded.model_class(drawn.config)
        strict = not drawn.settings.non_strict_weight_copy
        self._loaded.copy_model_weights(drawn.baseline, candidate, strict=strict)
        drawn.placed(drawn.baseline)
        self._built = Built(drawn, drawn.placed(candidate), precision)
        observing.reset_peak_memory(self._device)

    # --- the gate's half ----------------------------------------------------------------------------------

    def _forward(self, request: Forward) -> Output:
        built = self._built
        assert built is not None
        with torch.inference_mode():
            x, mask = built.drawn.inputs(request.input_seed)
            begin = time.perf_counter()
            output = built.candidate(x, mask)
            observing.synchronize(self._device)
            seconds = time.perf_counter() - begin
            path = observing.hand_over(observing.checked(output, x), request.folders)
            dtype = observing.dtype_name(output)
        first = seconds if self._facts.first_call_s is None else self._facts.first_call_s
        flags = self._facts.flags | ({"output_dtype": dtype} if output.dtype != x.dtype else {})
        peak = observing.peak_memory_mib(self._device)
        self._facts = replace(self._facts, first_call_s=first, peak_mem_mib=peak, flags=flags)
        self._ask_candidate(built)
        del output, x, mask
        free_memory(self._device)
        return Output(path, dtype, self._facts)

    def _ask_candidate(self, built: Built) -> None:
        """Take what the candidate says about itself, and what it did to the global flags."""
        model, before, after = built.candidate, built.precision, observing.precision_state()
        compile_s = getattr(model, "compile_s", None)
        flags = dict(self._facts.flags)
        if before != after:
            flags["tf32_changed"] = f"{before} to {after}"
        self._facts = replace(
            self._facts,
            route_ran=str(getattr(model, "route_ran", None) or ""),
            route_note=str(getattr(model, "route_note", None) or "")[:NOTE_CHARACTERS],
            compile_s=self._facts.compile_s if compile_s is None else float(compile_s),
            tf32=observing.tf32_text(self._device, before, after),
            flags=flags,
        )

    # --- timing -------------------------------------------------------------------------------------------

    def _time(self) -> Timed:
        built = self._built
        assert built is not None
        drawn, contract = built.drawn, built.drawn.contract
        counts = drawn.case.counts.shortened(drawn.case.shape)
        inputs = drawn.inputs(drawn.seed + SEED_OFFSET)
        sides = [("baseline", drawn.baseline), ("candidate", built.candidate)]
        for _, model in sides:
            contract.warmup_model(model, *inputs, counts.warmup, self._device)
        samples: list[Samples] = []
        for number in range(counts.rounds):
            for side, model in sides if number % 2 == 0 else reversed(sides):
                taken = contract.benchmark_once(model, *inputs, counts.repeats, self._device)
                samples += packed(drawn.case.id, side, number, taken)
        self._look_after_timing(built, *inputs)
        return Timed(tuple(samples), self._facts)

    def _look_after_timing(self, built: Built, x: Tensor, mask: Tensor) -> None:
        """Find out what would disturb the timing if it came first; too little memory is no failure."""
        self._ask_candidate(built)
        flags = dict(self._facts.flags)
        rows = getattr(built.candidate, "chunk_rows", None)
        with torch.inference_mode():
            aliases = observing.unless_out_of_memory(
                lambda: observing.aliases_output(built.candidate, x, mask)
            )
            if isinstance(rows, int) and 0 < rows < x.shape[0]:
                difference = observing.unless_out_of_memory(
                    lambda: chunk_difference(built.candidate, x, mask)
                )
                flags["chunk_rows"] = str(rows)
                flags["chunk_diff"] = "out of memory" if difference is None else f"{difference:.6g}"
        self._facts = replace(self._facts, aliases_output=aliases, flags=flags)

    def _look(self, request: Look) -> Looked:
        built = self._built
        assert built is not None
        drawn = built.drawn
        x, mask = drawn.inputs(drawn.seed + SEED_OFFSET)
        sides = [
            what_ran.Side(name, model, request.call_ms[name])
            for name, model in (("baseline", drawn.baseline), ("candidate", built.candidate))
            if name in request.call_ms
        ]
        found = what_ran.look(drawn.case, sides, x, mask, request.profile)
        return Looked(found.attention_backend, found.flags, tuple(found.profiles))


def chunk_difference(model: Any, x: Tensor, mask: Tensor) -> float:
    """Return the model's own figure for how far its chunked output is from the unchunked one."""
    return float(model.chunk_difference(x, mask))


def packed(case_id: str, side: str, number: int, samples_ms: list[float]) -> list[Samples]:
    """Return one round's times of one side as events of at most SAMPLES_PER_EVENT whole nanoseconds."""
    ns = [round(ms * 1e6) for ms in samples_ms]
    return [
        Samples(case_id, side, number, start, pack_ns(ns[start : start + SAMPLES_PER_EVENT]))
        for start in range(0, len(ns), SAMPLES_PER_EVENT)
    ]
