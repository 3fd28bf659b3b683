"""What a candidate leaves behind for all code of the process is noticed, and named."""

import ctypes
import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.nn.modules.module import register_module_forward_hook
from torch.overrides import TorchFunctionMode

from harness import contract, surroundings, switches
from harness.serving import RefusedError
from harness.stopwatch import HostWatch
from harness.tripwires import Tripwires


def left_behind() -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Ways to slow everybody down, each with how to end it."""
    mode: Any = TorchFunctionMode()
    calls = [lambda *_: None]
    hooks: list[torch.utils.hooks.RemovableHandle] = []
    return {
        "sys.setprofile": (lambda: sys.setprofile(lambda *_: None), lambda: sys.setprofile(None)),
        "collector's callbacks": (lambda: gc.callbacks.append(calls[0]), gc.callbacks.pop),
        "all calls of torch": (mode.__enter__, lambda: mode.__exit__(None, None, None)),
        "hooks of all modules": (
            lambda: hooks.append(register_module_forward_hook(lambda *_: None)),
            lambda: hooks.pop().remove(),
        ),
    }


@pytest.mark.parametrize("name", left_behind())
def test_what_is_left_behind_is_named(name: str) -> None:
    """Once it is there it is told by its name, and no more when it is gone."""
    leave, end = left_behind()[name]
    before = surroundings.read()
    leave()
    try:
        [told] = surroundings.changed(before)
    finally:
        end()
    assert name in told
    assert surroundings.changed(before) == []


@pytest.fixture
def state() -> Iterator[switches.State]:
    """The switches as they are, and are again afterwards."""
    before = switches.read()
    yield before
    switches.put(before)


def test_what_a_candidate_may_set_is_put_back(state: switches.State) -> None:
    """The collector, the default device, the cores: each side has its own, and no wire is tripped."""
    before = surroundings.read()
    gc.disable()
    gc.set_threshold(1)
    torch.set_default_device("meta")
    sys.setswitchinterval(0.5)
    assert surroundings.changed(before) == []
    assert switches.put(state) == []
    assert gc.isenabled() and torch.zeros(1).device.type == "cpu"


def _constants(*_: object) -> int:
    return 86_397_531


def test_constant_that_was_written_over_in_memory_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number inside of a function's code is the same object as before and another number."""
    monkeypatch.setattr(contract, "compared_by_nobody", _constants, raising=False)
    wires = Tripwires(contract)
    wires.check()
    place = id(_constants.__code__.co_consts[1]) + object.__basicsize__ + ctypes.sizeof(ctypes.c_ssize_t)
    ctypes.c_uint32.from_address(place).value ^= 1
    try:
        with pytest.raises(RefusedError, match="is in itself not what it was"):
            wires.check()
    finally:
        ctypes.c_uint32.from_address(place).value ^= 1


def test_altered_notes_are_refused() -> None:
    """Times that were noted and then shortened are no times."""
    watch = HostWatch()
    for _ in range(2):
        watch.time(lambda: torch.zeros(1))
    assert len(watch.taken()) == 2
    watch.time(lambda: torch.zeros(1))
    watch._notes._noted[0] //= 10
    with pytest.raises(RefusedError, match="not what it has noted"):
        watch.taken()
