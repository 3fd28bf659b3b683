"""What a candidate must leave alone, watched from inside of its own process.

Each finding is something that happened, never what the candidate's source says. All that is needed to look is
bound before there is a candidate. None of this binds code that sets out to deceive it in particular: what a
hostile process can alter is checked outside of it, by the driver's clock and by the judge.
"""

from __future__ import annotations

import gc
import marshal
import sys
import time
from collections.abc import Iterator
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from harness import surroundings
from harness.lookout import Lookout
from harness.serving import RefusedError

_sum: Any = torch._C._VariableFunctions.sum
_MODULES = (torch, torch.cuda, torch.cuda.streams, torch.nn.functional, torch.random, time, gc)
_CLASSES = (
    *(Tensor, nn.Module, nn.Linear, nn.LayerNorm, nn.GELU, nn.ModuleList),
    *(torch.cuda.Event, torch.cuda.Stream, torch.Generator),
)
_PART = 1 << 20  # elements
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")

Place = tuple[Any, str, Any]  # whose attribute, its name, what it is
Bits = tuple[int, ...]


class Tripwires:
    """Knows how things are when it is made; `check` raises RefusedError once they are not so any more."""

    def __init__(self, contract: ModuleType) -> None:
        self._lookout = Lookout()
        self._surroundings = surroundings.read()
        self._places = list(_places(contract))
        self._codes = [(value, _code(value)) for _, _, value in self._places if _code(value)]
        self._baseline: nn.Module | None = None
        self._structure: list[object] = []
        self._weights: Bits = ()

    def guard(self, baseline: nn.Module) -> None:
        """Remember a baseline as it is now: its modules, their hooks, its weights."""
        self._baseline, self._structure = baseline, structure(baseline)
        self._weights = weights(baseline)

    def check(self) -> None:
        """Raise RefusedError, `disqualified`, at what has been touched since."""
        if found := self._lookout.found:
            _refuse(*found)
        if changed := surroundings.changed(self._surroundings):
            words = f"{', '.join(changed)}: not as before the candidate came, and the baseline runs under it"
            _refuse("process_settings", words)
        for owner, name, value in self._places:
            now = vars(owner).get(name)
            if now is not value and not wrapped_by_torch(now, value):
                _refuse("replaced", f"{_named(owner)}.{name} is not what it was before the candidate came")
        for function, code in self._codes:
            if _code(function) != code:
                _refuse(
                    "replaced", f"{_named(function)} is in itself not what it was before the candidate came"
                )
        if self._baseline is not None:
            self._check_baseline(self._baseline)

    def _check_baseline(self, baseline: nn.Module) -> None:
        if structure(baseline) != self._structure:
            _refuse("baseline_touched", "the baseline's modules or hooks are not what they were")
        if weights(baseline) != self._weights:
            _refuse("weights_changed", "the baseline's weights are not what they were before the candidate")


def check_input(tensors: tuple[Tensor, ...], before: Bits) -> None:
    """Raise RefusedError, `disqualified`, when a call has changed its input."""
    if bits(*tensors) != before:
        _refuse("input_changed", "the input was changed by the candidate's call")


def _refuse(kind: str, words: str) -> None:
    raise RefusedError("disqualified", kind, words)


# --- how things are ---------------------------------------------------------------------------------------


def bits(*tensors: Tensor) -> Bits:
    """Return sums over the tensors' bits, which hardly any change leaves as they are."""
    with torch.inference_mode():
        return tuple(int(number) for tensor in tensors for number in _sums(tensor.detach()))


def _sums(tensor: Tensor) -> Iterator[Tensor]:
    """Yield the sum over all elements and that over every third, in parts: torch copies to add in 64 bits."""
    width = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    whole = tensor.contiguous().view(width).flatten()
    part = max(_PART, whole.numel() // 64)
    for step in (1, 3):
        pieces = (whole[begin : begin + part : step] for begin in range(0, whole.numel(), part))
        totals = [_sum(piece, dtype=torch.int64) for piece in pieces]
        yield _sum(torch.stack(totals))


def weights(module: nn.Module) -> Bits:
    """Return the bits of a module's parameters and buffers."""
    state = module.state_dict(keep_vars=True)
    return bits(*state.values())


def structure(module: nn.Module) -> list[object]:
    """Return what a module is made of: its parts, their classes, their attributes' names, their hooks."""
    return [
        (id(part), type(part), sorted(vars(part)), [len(vars(part).get(name) or ()) for name in _HOOKS])
        for part in module.modules()
    ]


def _places(contract: ModuleType) -> Iterator[Place]:
    """Yield what measuring and judging depend on, and the baseline's own arithmetic."""
    ours = [module for name, module in sys.modules.items() if name.partition(".")[0] == "harness"]
    for module in (*ours, contract):
        for name, value in vars(module).items():
            if not name.startswith("__"):
                yield module, name, value
            if isinstance(value, type) and value.__module__ == module.__name__:
                yield from _members(value)
    for module in _MODULES:
        yield from ((module, name, value) for name, value in vars(module).items() if callable(value))
    for cls in _CLASSES:
        yield from _members(cls)


def _members(cls: type) -> Iterator[Place]:
    return (
        (cls, name, value)
        for name, value in vars(cls).items()
        if (callable(value) or isinstance(value, (property, staticmethod, classmethod)))
    )


def wrapped_by_torch(now: object, before: object) -> bool:
    """Whether torch itself has put a function around another, as it does where it begins to compile."""
    if not isinstance(now, FunctionType) or not now.__code__.co_filename.startswith(surroundings.TORCH):
        return False
    inside = [getattr(now, "__wrapped__", None), *(cell.cell_contents for cell in now.__closure__ or ())]
    return any(held is before for held in inside)


def _code(value: object) -> tuple[object, ...]:
    """Return what a function does when called, or what a constant is, down to its bytes.

    Nothing for all other things. Code and constants can be written over in memory and stay the same objects.
    """
    if isinstance(value, (staticmethod, classmethod)):
        return _code(value.__func__)
    if isinstance(value, property):
        return _code(value.fget)
    if isinstance(value, (int, float, str, bytes)):
        return (_bytes(value),)
    if not isinstance(value, FunctionType):
        return ()
    held = tuple(_content(cell) for cell in value.__closure__ or ())
    defaults = value.__defaults__, tuple((value.__kwdefaults__ or {}).items())
    return value.__code__, _bytes(value.__code__), *defaults, held


def _bytes(value: CodeType | float | str | bytes) -> bytes:
    return marshal.dumps(value, 2)  # from version 3 on they hold how often an object is used


def _content(cell: CellType) -> int:
    try:
        return id(cell.cell_contents)
    except ValueError:  # it is empty
        return 0


def _named(thing: Any) -> str:
    name = getattr(thing, "__qualname__", "")
    return f"{thing.__module__}.{name}" if name else str(getattr(thing, "__name__", thing))
