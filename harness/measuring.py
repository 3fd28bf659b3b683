"""The worker's desk: builds the candidate as the contest's script does, runs it, and times both sides."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from harness import observing, official, strict, switches, what_ran
from harness.apart import FOLDER, Apart
from harness.candidate import Candidate, load_candidate, load_contract
from harness.channel import (
    Alone,
    Block,
    Build,
    Done,
    Enter,
    Facts,
    Forward,
    Hello,
    Load,
    Look,
    Looked,
    Message,
    Output,
    Ready,
    Repeat,
    Show,
    Sprint,
    Time,
    Timed,
    Warm,
)
from harness.drawing import Drawn, describe, draw, free_memory, take_device
from harness.stopwatch import Watch, watch_of
from harness.strict import Room, Side, Strict
from harness.tripwires import Tripwires, bits, check_input

ROOT = Path(__file__).resolve().parent.parent
NOTE_CHARACTERS = 1000


@dataclass
class Built:
    """What one case needs: the drawn baseline and the candidate beside it."""

    drawn: Drawn
    candidate: nn.Module
    own: dict[str, Side]  # the candidate, and the model that it is compared with
    precision: str  # the state of the global flags before there was a candidate
    switches: switches.State  # the same, of all switches
    strict: Strict | None = None


class Desk:
    """Answers the driver. One case at a time."""

    def __init__(self, device: str) -> None:
        self._device = take_device(device)
        self._contract: ModuleType | None = None
        self._entrants: dict[str, tuple[Candidate, Room]] = {}  # by side; the candidate is the last
        self._built: Built | None = None
        self._facts = Facts()
        self._watch: Watch | None = None
        self._before: switches.State | None = None  # there was a candidate
        self._wires: Tripwires | None = None

    def answer(self, request: Message) -> Message:
        """Do what is asked and say what came of it."""
        match request:
            case Hello():
                return Ready(describe(self._device))
            case Load():
                self._contract = load_contract(request.own_harness)
            case Alone():
                return self._alone(request)
            case Enter():
                self._enter(request)
            case Build():
                self._build(request)
            case Forward():
                return self._forward(request)
            case Time():
                return self._time(request)
            case Look():
                return self._look(request)
            case Warm() | Block() | Show() | Sprint() | Repeat():
                return self._strict(request)
            case _:
                raise TypeError(f"the worker has no answer to {type(request).__name__}")
        return Done()

    # --- before there is a candidate -----------------------------------------------------------------------

    def _alone(self, request: Alone) -> Timed:
        assert self._contract is not None
        drawn = draw(self._contract, request.case, request.weight_seed, self._device)
        drawn.placed(drawn.baseline)
        self._before = switches.read()
        if request.case.protocol == "strict":
            self._watch = watch_of(self._device)
            samples = strict.alone(drawn, Side(drawn.baseline, self._before), self._watch, request.seed)
        else:
            samples = official.alone(drawn)
        del drawn
        free_memory(self._device)
        return Timed(samples, Facts())

    def _enter(self, request: Enter) -> None:
        assert self._contract is not None
        self._wires = Tripwires(self._contract)
        candidate = load_candidate(request.model)
        if request.against:
            apart = Apart(ROOT / FOLDER)
            self._entrants["against"] = apart.load(request.against), apart.room
        self._entrants["candidate"] = candidate, contextlib.nullcontext
        self._wires.check()

    # --- building -----------------------------------------------------------------------------------------

    def _build(self, request: Build) -> None:
        assert self._contract is not None and self._wires is not None
        if self._built is None or self._built.drawn.case != request.case:
            self._facts = Facts()
        self._built = None
        gc.collect()
        free_memory(self._device)
        drawn = draw(self._contract, request.case, request.weight_seed, self._device)
        precision, state = observing.precision_state(), switches.read()
        self._wires.guard(drawn.baseline)
        own = {}
        for side, (loaded, room) in self._entrants.items():
            switches.put(state)  # nothing to do for the first
            with room():
                model = copied(loaded, drawn)
            own[side] = Side(model, switches.read(), room)
        self._wires.check()
        drawn.placed(drawn.baseline)
        self._wires.guard(drawn.baseline)
        for entrant in own.values():
            drawn.placed(entrant.model)
        self._built = Built(drawn, own["candidate"].model, own, precision, self._before or state)
        observing.reset_peak_memory(self._device)

    # --- the gate's half ----------------------------------------------------------------------------------

    def _forward(self, request: Forward) -> Output:
        built = self._built
        assert built is not None
        with torch.inference_mode():
            x, mask = built.drawn.inputs(request.input_seed)
            side = built.own[request.side]
            if len(built.own) > 1:
                switches.put(side.switches)
            given = bits(x, mask)
            begin = time.perf_counter()
            with side.room():
                output = side.model(x, mask)
                observing.synchronize(self._device)
            seconds = time.perf_counter() - begin
            check_input((x, mask), given)
            side.switches = switches.read()
            path = observing.hand_over(observing.checked(output, x), request.folders)
            dtype = observing.dtype_name(output)
        if request.side == "candidate":
            self._note(built, seconds, {} if output.dtype == x.dtype else {"output_dtype": dtype})
        self._check_wires()
        del output, x, mask
        free_memory(self._device)
        return Output(path, dtype, self._facts)

    def _note(self, built: Built, seconds: float, flags: dict[str, str]) -> None:
        first = seconds if self._facts.first_call_s is None else self._facts.first_call_s
        peak = observing.peak_memory_mib(self._device)
        flags = self._facts.flags | flags
        self._facts = replace(self._facts, first_call_s=first, peak_mem_mib=peak, flags=flags)
        self._ask_candidate(built)

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

    def _time(self, request: Time) -> Timed:
        built = self._built
        assert built is not None
        inputs = official.timing_inputs(built.drawn)
        given = bits(*inputs)
        samples = official.in_turns(built.drawn, built.candidate, inputs, request.baseline)
        check_input(inputs, given)
        if request.again:
            samples += official.again(built.drawn, inputs)
        call_ms = Timed(samples, self._facts).call_ms()["candidate"]
        self._look_after_timing(built, *inputs, is_long=call_ms > what_ran.LONGEST_CALL_S * 1e3)
        self._check_wires()
        return Timed(samples, self._facts)

    def _strict(self, request: Warm | Block | Show | Sprint | Repeat) -> Message:
        built = self._built
        assert built is not None
        if isinstance(request, Warm):
            self._watch = self._watch or watch_of(self._device)
            built.strict = Strict(built.drawn, self._sides(built, request.sides), self._watch)
            return built.strict.warm(request.calls)
        assert built.strict is not None
        if isinstance(request, Sprint):
            return built.strict.sprint(request)
        if isinstance(request, Repeat):
            return built.strict.repeat(request)
        if isinstance(request, Show):
            output = built.strict.output(request.position)
            path = observing.hand_over(output, request.folders)
            return Output(path, observing.dtype_name(output), self._facts)
        blocked = built.strict.block(request)
        self._ask_candidate(built)
        self._check_wires()
        return replace(blocked, facts=self._facts)

    def _check_wires(self) -> None:
        assert self._wires is not None
        self._wires.check()

    def _sides(self, built: Built, names: Sequence[str]) -> dict[str, Side]:
        """Return the sides by name; a candidate's switches are as it has left them until now."""
        baseline = Side(built.drawn.baseline, built.switches)
        return {name: built.own.get(name, baseline) for name in names}

    def _look_after_timing(self, built: Built, x: Tensor, mask: Tensor, is_long: bool) -> None:
        """Find out what would disturb the timing if it came first; too little memory is no failure.

        Two more calls, for the outputs' memory, are too much where a call `is_long`.
        """
        self._ask_candidate(built)
        flags = dict(self._facts.flags)
        rows = getattr(built.candidate, "chunk_rows", None)
        with torch.inference_mode():
            look = partial(observing.aliases_output, built.candidate, x, mask)
            aliases = None if is_long else observing.unless_out_of_memory(look)
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
        x, mask = official.timing_inputs(drawn)
        now = switches.read()
        its = (
            built.switches if drawn.case.protocol == "strict" else now
        )  # the contest's sides share one state
        sides = [
            what_ran.Side(name, model, request.call_ms[name], partial(switches.put, state))
            for name, model, state in (("baseline", drawn.baseline, its), ("candidate", built.candidate, now))
            if name in request.call_ms
        ]
        found = what_ran.look(drawn.case, sides, x, mask, request.profile)
        return Looked(found.attention_backend, found.flags, tuple(found.profiles))


def copied(loaded: Candidate, drawn: Drawn) -> nn.Module:
    """Build a model as the contest's script does, with the baseline's weights by its own way of copying."""
    model = loaded.model_class(drawn.config)
    strict = not drawn.settings.non_strict_weight_copy
    loaded.copy_model_weights(drawn.baseline, model, strict=strict)
    return model


def chunk_difference(model: Any, x: Tensor, mask: Tensor) -> float:
    """Return the model's own figure for how far its chunked output is from the unchunked one."""
    return float(model.chunk_difference(x, mask))
