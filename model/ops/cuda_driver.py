"""Loading what `cuda` builds and starting it, through the CUDA driver that torch has already woken up.

    load = Loader(x.device)
    function = load(text, "name", "PPqf", shared=49152, defines={"WIDTH": 64})      # built and loaded once
    function(blocks, 128, stream, x, y, stride, scale)

The driver is called by ctypes: no compiler for the host is needed, and no extension is built. A launch goes
to the stream it is given, and is captured if that is.

Source: CUDA driver API, groups MODULE and EXEC.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from . import cuda

LEAST_CAPABILITY = (7, 5)  # what the ops' texts are written for
_MOST_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_FREE_SHARED = 48 * 1024  # more must be asked for
KINDS: dict[str, Any] = {
    "P": ctypes.c_void_p,
    "i": ctypes.c_int,
    "q": ctypes.c_longlong,
    "f": ctypes.c_float,
}


class DriverError(RuntimeError):
    """The driver refused to load or to start; the message names the call and its reason."""


class Start(Protocol):
    """Starts a function over so many blocks of so many threads."""

    def __call__(self, blocks: int, threads: int, stream: int, *arguments: Tensor | float | None) -> None:
        """Start on a stream of the current device; tensors go by their address, None as a null pointer."""


class Load(Protocol):
    """Builds and loads functions; raises BuildError or DriverError where that fails."""

    def __call__(
        self, text: str, name: str, signature: str, shared: int, defines: Mapping[str, int]
    ) -> Start:
        """The function of that name in a text; the rest as `Function` and `cuda.build` take it."""


class Loader:
    """Functions of one device, each built and loaded once.

    On a card of capability 7.5 they are machine code for it; on later ones the driver compiles the same PTX.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        own = torch.cuda.get_device_capability(device) == LEAST_CAPABILITY
        self._arch = f"{'sm' if own else 'compute'}_{LEAST_CAPABILITY[0]}{LEAST_CAPABILITY[1]}"
        self._loaded: dict[tuple[object, ...], Function] = {}

    def __call__(
        self, text: str, name: str, signature: str, shared: int, defines: Mapping[str, int]
    ) -> Function:
        """See `Load`."""
        key = (text, name, shared, *sorted(defines.items()))
        if key not in self._loaded:
            image = cuda.build(text, self._arch, defines)
            self._loaded[key] = Function(image, name, signature, shared, self._device)
        return self._loaded[key]


@functools.cache
def loader(device: torch.device) -> Load:
    """The one loader of a device."""
    return Loader(device)


class Function:
    """One function of an image, loaded on one device.

    `signature`: a letter for each parameter, as `struct` has them: P an address, i int, q long long, f float.
    `shared`: bytes of dynamic shared memory of a block. Raises DriverError when the driver does not take it.
    """

    def __init__(self, image: bytes, name: str, signature: str, shared: int, device: torch.device) -> None:
        self._kinds = [KINDS[letter] for letter in signature]
        self._addresses = ctypes.c_void_p * len(signature)
        self._shared = shared
        self._module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        with torch.cuda.device(device):
            torch.cuda.synchronize(device)  # torch makes its context now, if it has not yet
            _call("cuModuleLoadData", ctypes.byref(self._module), ctypes.c_char_p(image))
            _call("cuModuleGetFunction", ctypes.byref(self._function), self._module, name.encode())
            if shared > _FREE_SHARED:
                _call("cuFuncSetAttribute", self._function, _MOST_DYNAMIC_SHARED, shared)

    def __call__(self, blocks: int, threads: int, stream: int, *arguments: Tensor | float | None) -> None:
        """See `Start`."""
        values = [
            kind(value.data_ptr() if isinstance(value, Tensor) else value)
            for kind, value in zip(self._kinds, arguments, strict=True)
        ]
        addresses = self._addresses(*map(ctypes.addressof, values))
        _call(
            "cuLaunchKernel", self._function, blocks, 1, 1, threads, 1, 1, self._shared,
            ctypes.c_void_p(stream), addresses, None,
        )  # fmt: skip


def _call(name: str, *arguments: object) -> None:
    driver = _driver()
    status: int = getattr(driver, name)(*arguments)
    if status:
        told = ctypes.c_char_p()
        driver.cuGetErrorString(status, ctypes.byref(told))
        raise DriverError(f"{name}: {(told.value or b'unknown error').decode()} ({status})")


@functools.cache
def _driver() -> ctypes.CDLL:
    """Raises DriverError where there is none."""
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise DriverError(f"no CUDA driver: {error}") from None
