"""Starting a compiled Triton function again with as little Python as there can be.

`function[grid](…)` looks at every argument anew to find the compiled variant that suits: 13 of the 20 us that
a launch costs. Here all but the addresses is settled when the launch is made, and the variant of the first
call is started again as long as the addresses are as aligned as it takes for granted.
"""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
from torch import Tensor

_AS_IT_IS = nullcontext()
ALIGNMENT = 16  # bytes: what Triton looks for in an address


def on_device_of(x: Tensor) -> AbstractContextManager[object]:
    """Makes x's GPU the current one, which launches and allocations go by, if it is not."""
    if not x.is_cuda or torch._C._cuda_getDevice() == x.get_device():
        return _AS_IT_IS
    return torch.cuda.device(x.device)


def current_stream(x: Tensor) -> int:
    """The current stream of x's device as a number, as Triton asks torch for it; 0 on a CPU."""
    if not x.is_cuda:
        return 0
    stream: int = torch._C._cuda_getCurrentRawStream(x.get_device())
    return stream


def is_captured(x: Tensor) -> bool:
    """Whether work on x is being captured into a graph now."""
    return x.is_cuda and torch.cuda.is_current_stream_capturing()


def processors(x: Tensor) -> int:
    """How many multiprocessors x's device has; 1 on a CPU."""
    return _processors(x.device) if x.is_cuda else 1


@functools.cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


class Jitted(Protocol):
    """What `triton.jit` makes of a function."""

    arg_names: list[str]

    def __getitem__(self, grid: tuple[int, ...]) -> Compiler:
        """The function over a grid."""


class Compiler(Protocol):
    """Compiles for its arguments, unless that was done, and starts; in the interpreter it returns nothing."""

    def __call__(self, *args: object, **constants: object) -> Compiled | None:
        """Run."""


class Compiled(Protocol):
    """A variant: its launcher, and what that is called with."""

    function: int
    packed_metadata: object

    def run(self, *args: object) -> None:
        """Start: grid, stream, function, metadata, hooks, then every argument, constants too."""


class Launch:
    """A jitted function over so many programs, with all its arguments but the first, which are tensors.

    `fixed` are the arguments after these, by position; constants and options go by name.
    """

    def __init__(
        self, function: Jitted, programs: int, fixed: tuple[object, ...], **constants: object
    ) -> None:
        self._function, self._grid = function, (programs,)
        self._fixed, self.constants = fixed, constants
        self._compiled: Compiled | None = None
        self._direct = True
        # In the order of the function's parameters; options such as num_warps are none.
        self._tail = (*fixed, *(constants[name] for name in function.arg_names if name in constants))

    def __call__(self, stream: int, *tensors: Tensor) -> None:
        """Start on this stream, the current one of the current device; the first call compiles: seconds."""
        addresses = [tensor.data_ptr() for tensor in tensors]
        bits = 0
        for address in addresses:
            bits |= address
        aligned = bits % ALIGNMENT == 0
        if aligned and self._compiled is not None and self._start(self._compiled, stream, addresses):
            return
        compiled = self._function[self._grid](*tensors, *self._fixed, **self.constants)
        if aligned and self._direct:
            self._compiled = compiled

    def _start(self, kernel: Compiled, stream: int, addresses: list[int]) -> bool:
        """Start a variant; False, with nothing started, where Triton's launcher takes other arguments."""
        try:
            kernel.run(
                self._grid[0], 1, 1, stream, kernel.function, kernel.packed_metadata, None, None, None,
                *addresses, *self._tail,
            )  # fmt: skip
        except TypeError:
            self._compiled, self._direct = None, False
        return self._direct
