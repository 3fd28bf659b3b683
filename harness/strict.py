"""The worker's half of protocol `strict`: what is called, on what, in which order, and what becomes of it.

In a block the sides take turns call by call, in an order drawn anew for every turn. Each call has an input of
its own, drawn from the block's seed and the call's position, in memory that other inputs have had before.
Right after a candidate's call its output is copied on the same stream: what the call had not finished by then
is not in the copy. The output itself is kept, too; at the block's end the two must be the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from harness import observing, switches
from harness.beside import Beside
from harness.channel import Block, Blocked, Repeat, Repeated, Sprint, Sprinted, Warmed
from harness.drawing import Drawn
from harness.events import Samples
from harness.plain import pack_ns
from harness.serving import RefusedError
from harness.stopwatch import Watch, now_ns

ALONE = "baseline_before"
BASELINES = frozenset({"baseline", "baseline_again", ALONE})
_ALONE_NS = 1_000_000_000  # about so long is the baseline timed before there is a candidate
_MOST_ALONE = 100
_LONG_NS = 100_000_000  # of so long a call the host's share is none
_SLOTS = 3  # of memory that inputs take in turns
_SHARE_OF_MEMORY = 4  # a quarter of what is free may hold a block's inputs and outputs
_ROOM_ON_CPU = 512 << 20
_WARM_SEED = 1 << 49  # above every block's seed

Room = Callable[[], AbstractContextManager[object]]


@dataclass
class Side:
    """One model, the process-wide switches that it runs under, and what puts its modules in place."""

    model: nn.Module
    switches: switches.State
    room: Room = contextlib.nullcontext


@dataclass
class Kept:
    """What a call returned, and the copy that was taken right after it; a baseline's copy is let go.

    A baseline's outputs are kept, too, so that no side finds memory that it has just had again.
    """

    output: Tensor
    copy: Tensor | None


class Strict:
    """One case's strict timing. `sides` are by name: `baseline`, `candidate`, perhaps `against`."""

    def __init__(self, drawn: Drawn, sides: Mapping[str, Side], watch: Watch) -> None:
        self._drawn = drawn
        self._sides = dict(sides)
        self._watch = watch
        self._slots: list[tuple[Tensor, Tensor]] = []
        self._seeds: list[int] = []  # of what the slots hold
        self._drawings = 0
        self._kept: dict[int, Kept] = {}
        self._beside = Beside(drawn.device)

    # --- before the first block ---------------------------------------------------------------------------

    def warm(self, calls: int) -> Warmed:
        """Call every side until it is warm, and see how large a block may be and how long a turn takes."""
        turn_ns = 0
        for name in self._sides:
            for number in range(max(1, calls)):
                start = now_ns()
                self._call(name, _WARM_SEED + number, lambda call: call())
                self._watch.wait()
            call_ns = now_ns() - start  # of the last call, which is the warmest
            turn_ns += call_ns
            if call_ns < _LONG_NS:
                self._call(name, _WARM_SEED, self._learned)
        half = _room(self._drawn.device) // 2  # for inputs, and for outputs
        if _SLOTS * self._output_bytes <= half:
            self._slots = [self._drawn.inputs(_WARM_SEED) for _ in range(_SLOTS)]
            self._seeds = [_WARM_SEED] * _SLOTS
        return Warmed(max(1, half // (_tensors_kept(self._sides) * self._output_bytes)), turn_ns)

    def _learned(self, call: Callable[[], Tensor]) -> Tensor:
        self._watch.learn(call)
        return call()

    @property
    def _output_bytes(self) -> int:
        shape = self._drawn.case.shape
        return shape.tokens * shape.d_model * self._drawn.dtype.itemsize

    # --- a block ------------------------------------------------------------------------------------------

    def block(self, order: Block) -> Blocked:
        """Time a block's calls; its outputs are kept until the next one."""
        self._kept.clear()
        turns = order.order()
        late: dict[str, int] = dict.fromkeys(order.sides, 0)
        self._reserve(turns)
        start = now_ns()
        for position, name in enumerate(turns):
            late[name] += self._timed(name, position, order.seed + position)
        ns = self._watch.taken()
        wall_ns = now_ns() - start
        switches.put(self._sides[order.sides[-1]].switches)  # as if nobody had put them back in between
        samples = tuple(
            Samples(self._drawn.case.id, name, order.number, 0, *_packed(ns, turns, name))
            for name in order.sides
        )
        self._refuse_spoiled_inputs()
        self._beside.refuse()
        shared, changed = self._disowned()
        return Blocked(samples, wall_ns, late, shared, changed)

    def _reserve(self, turns: list[str]) -> None:
        """Have torch get the memory that the block will keep now: getting it stops the device."""
        d = self._drawn
        shape = (d.case.shape.batch, d.case.shape.seq_len, d.case.shape.d_model)
        held = [torch.empty(shape, dtype=d.dtype, device=d.device) for _ in range(_tensors_kept(turns))]
        del held

    def _timed(self, name: str, position: int, seed: int) -> bool:
        """Time one call. Return whether the device had to wait for the host."""
        late = False

        def timed(call: Callable[[], Tensor]) -> Tensor:
            nonlocal late
            watched = name in BASELINES and name != ALONE
            with self._beside.call() if watched else contextlib.nullcontext():
                output, late = self._watch.time(call)
            copy = output.clone()
            self._kept[position] = Kept(output, None if name in BASELINES else copy)
            return output

        self._call(name, seed, timed)
        return late

    def _call(self, name: str, seed: int, how: Callable[[Callable[[], Tensor]], Tensor]) -> None:
        """Call a side on the input of a seed, under its own switches, and remember how it left them."""
        side = self._sides[name]
        switches.put(side.switches)
        with self._watch.stream():
            x, mask = self._input(seed)
            with side.room(), torch.inference_mode():
                observing.checked(how(lambda: side.model(x, mask)), x)
        if name not in BASELINES:
            side.switches = switches.read()

    def _input(self, seed: int) -> tuple[Tensor, Tensor]:
        """Draw an input; where there is memory for it, into one of a few places that take turns."""
        x, mask = self._drawn.inputs(seed)
        if not self._slots:
            return x, mask
        place = self._drawings % len(self._slots)
        slot = self._slots[place]
        self._seeds[place] = seed
        self._drawings += 1
        slot[0].copy_(x)
        slot[1].copy_(mask)
        return slot

    def _refuse_spoiled_inputs(self) -> None:
        """Raise RefusedError when the block's last inputs are not what was drawn any more."""
        for slot, seed in zip(self._slots, self._seeds, strict=True):
            if not all(map(same_bits, slot, self._drawn.inputs(seed))):
                raise RefusedError("disqualified", "input_changed", "an input was changed by a timed call")

    def _disowned(self) -> tuple[int, int]:
        """Return how many outputs share memory with another or with an input, and how many have changed."""
        handed = [kept for kept in self._kept.values() if kept.copy is not None]
        shared = overlapping([kept.output for kept in handed], [x for x, _ in self._slots])
        return shared, sum(not same_bits(kept.output, kept.copy) for kept in handed if kept.copy is not None)

    # --- after it -----------------------------------------------------------------------------------------

    def output(self, position: int) -> Tensor:
        """Return the copy of the output of the call at a position of the last block."""
        copy = self._kept[position].copy
        assert copy is not None
        return copy

    def sprint(self, order: Sprint) -> Sprinted:
        """Run one side's calls back to back; whoever asked has a clock of its own."""
        self._kept.clear()
        side = self._sides[order.side]
        seeds = range(order.seed, order.seed + max(1, len(self._slots)))
        inputs = [self._input(seed) for seed in seeds]
        switches.put(side.switches)

        def run() -> None:
            with self._watch.stream(), side.room(), torch.inference_mode():
                for number in range(order.calls):
                    side.model(*inputs[number % len(inputs)])

        return Sprinted(self._watch.span(run))

    def repeat(self, order: Repeat) -> Repeated:
        """Time calls on new inputs and on one input that comes again and again, in turns."""
        self._kept.clear()
        for number in range(order.calls + 1):
            for seed in (order.seed + 1 + number, order.seed):
                self._call(order.side, seed, lambda call: self._watch.time(call)[0])
        ns = self._watch.taken()[2:]  # the first time, no input has been seen before
        return Repeated(tuple(ns[::2]), tuple(ns[1::2]))


def alone(drawn: Drawn, baseline: Side, watch: Watch, seed: int) -> tuple[Samples, ...]:
    """Return times of the baseline before there is a candidate: as many as a second and the memory hold."""
    sitting = Strict(drawn, {ALONE: baseline}, watch)
    warmed = sitting.warm(3)
    turns = min(max(3, round(_ALONE_NS / max(1, warmed.turn_ns))), _MOST_ALONE, warmed.room)
    return sitting.block(Block(0, seed, seed, turns, (ALONE,))).samples


def _tensors_kept(sides: Iterable[str]) -> int:
    """Return how many tensors of an output's size the calls of these sides leave to be kept."""
    return sum(1 if name in BASELINES else 2 for name in sides)


def overlapping(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> int:
    """Return how many outputs have memory in common with another output or with an input.

    Parts of one allocation that do not touch each other are each a caller's own.
    """
    begins = sorted((*_span(tensor), number) for number, tensor in enumerate((*outputs, *inputs)))
    touched: set[int] = set()
    last_end, last = 0, -1
    for begin, end, number in begins:
        if begin < last_end:
            touched |= {number, last}
        if end > last_end:
            last_end, last = end, number
    return len([number for number in touched if number < len(outputs)])


def _span(tensor: Tensor) -> tuple[int, int]:
    """Return the addresses of a tensor's first byte and after its last."""
    reach = sum((size - 1) * abs(stride) for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    begin = tensor.data_ptr()
    return begin, begin + (reach + 1) * tensor.element_size()


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors of one shape and dtype hold the same bits, nan or not."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    width = {2: torch.int16, 4: torch.int32, 8: torch.int64}.get(a.element_size(), torch.uint8)
    return torch.equal(a.contiguous().view(width), b.contiguous().view(width))


def _packed(ns: list[int], turns: list[str], name: str) -> tuple[str, str]:
    own = [position for position, turn in enumerate(turns) if turn == name]
    return pack_ns([ns[position] for position in own]), pack_ns(own)


def _room(device: torch.device) -> int:
    """Return how many bytes a block's inputs and outputs may take."""
    if device.type != "cuda":
        return _ROOM_ON_CPU
    free = torch.cuda.mem_get_info(device)[0]
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free + cached) // _SHARE_OF_MEMORY
