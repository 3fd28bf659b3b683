"""The sdpa route's computation, compiled by torch.compile at the first forward."""

from __future__ import annotations

import time
from collections.abc import Callable
from subprocess import CalledProcessError
from types import FunctionType

import torch
from torch import Tensor

from ..chunking import is_out_of_memory
from ..weights import Tensors
from . import sdpa


class Route(sdpa.Route):
    """Compiles itself; where that fails it runs as sdpa from then on, and `note` gives the first cause."""

    ran = "compiled"

    def __init__(self) -> None:
        self._compiled: Callable[..., Tensor] | None = None
        self._met: set[tuple[object, ...]] = set()

    def stack(
        self, x: Tensor, valid: Tensor | None, tensors: Tensors, heads: int, causal: bool, inplace: bool
    ) -> Tensor:
        """`sdpa.stack`, compiled where that works."""
        args = x, valid, tensors, heads, causal, inplace
        if self.ran == Route.ran:
            try:
                return self._timed(x, valid, lambda: self._call(*args))
            except Exception as error:
                # Compilers fail in every way there is; running out of memory is the caller's to mend.
                if is_out_of_memory(error):
                    raise
                self.ran = sdpa.Route.ran
                self.note = f"compilation failed, ran {self.ran}: {first_cause(error)}"
        return sdpa.stack(*args)

    def _call(self, *args: object) -> Tensor:
        if self._compiled is None:
            # Dynamo counts recompilations by code object: with one of its own, this model's limit is its own.
            # fullgraph: past the limit it raises, where it would silently stop compiling.
            own = FunctionType(sdpa.stack.__code__.replace(), sdpa.stack.__globals__, sdpa.stack.__name__)
            self._compiled = torch.compile(own, fullgraph=True)
        return self._compiled(*args)

    def _timed(self, x: Tensor, valid: Tensor | None, call: Callable[[], Tensor]) -> Tensor:
        """Call; the first one of each kind of input, where compilation happens, counts to `compile_s`."""
        kind = (x.shape, x.dtype, x.device, valid is None)
        if kind in self._met:
            return call()
        start = time.perf_counter()
        try:
            result = call()
            if x.is_cuda:
                torch.cuda.synchronize(x.device)
            self._met.add(kind)
            return result
        finally:
            self.compile_s = (self.compile_s or 0.0) + time.perf_counter() - start


def first_cause(error: BaseException) -> str:
    """Class and first line of the error at the root of a compiler's chain of wrappers.

    Where a program failed, the first line in its output that tells an error, not the command it was given.
    """
    while cause := getattr(error, "inner_exception", None) or error.__cause__:
        error = cause
    text = str(error)
    if isinstance(error, CalledProcessError) and error.output:
        text = error.output if isinstance(error.output, str) else error.output.decode(errors="replace")
    lines = text.strip().splitlines() or [""]
    told = next((line for line in lines if "error:" in line and "collect2" not in line), lines[0])
    return f"{type(error).__name__}: {told}"[:300]
