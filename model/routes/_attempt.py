"""A route that may fail where it runs, for want of a compiler or a GPU: it then runs as sdpa, saying why."""

from __future__ import annotations

import time
from collections.abc import Callable
from subprocess import CalledProcessError

import torch
from torch import Tensor

from ..chunking import is_out_of_memory
from ..levers import Settings
from ..weights import Weights
from . import sdpa


class Attempt(sdpa.Route):
    """Runs `attempt`; what it refuses runs as sdpa, and once it has failed all does: `note` says why.

    The first call for each kind of input, where something is compiled or captured, counts to `compile_s`.
    """

    doing = "compilation"

    def __init__(self) -> None:
        self._met: set[tuple[object, ...]] = set()
        self._failed = ""

    def attempt(self, x: Tensor, valid: Tensor | None, weights: Weights, levers: Settings) -> Tensor:
        """Compute what `sdpa.Route.run` does, in this route's way."""
        raise NotImplementedError

    def run(self, x: Tensor, valid: Tensor | None, weights: Weights, levers: Settings) -> Tensor:
        """See `routes.Route.run`."""
        kind = (x.shape, x.dtype, x.device, valid is None)
        met = kind in self._met
        self.note = self._failed or (self.changed(weights) if met else self.refusal(x, weights, levers))
        if not self.note:
            try:
                if met:
                    self.ran = type(self).ran
                    return self.attempt(x, valid, weights, levers)
                result = self._timed(x, kind, lambda: self.attempt(x, valid, weights, levers))
            except Exception as error:
                # Compilers fail in every way there is; running out of memory is the caller's to mend.
                if is_out_of_memory(error):
                    raise
                self.note = self._failed = f"{self.doing} failed: {first_cause(error)}"
            else:
                self.ran = type(self).ran
                return result
        self.ran = sdpa.Route.ran
        return super().run(x, valid, weights, levers)

    def changed(self, weights: Weights) -> str:
        """Why weights that have changed since are refused now; asked before each call of a kind that ran."""
        return ""

    def _timed(self, x: Tensor, kind: tuple[object, ...], call: Callable[[], Tensor]) -> Tensor:
        start = time.perf_counter()
        try:
            result = call()
            if x.is_cuda:
                torch.cuda.synchronize(x.device)
            self._met.add(kind)
            return result
        finally:
            self.compile_s = (self.compile_s or 0.0) + time.perf_counter() - start


def no_gpu(x: Tensor) -> str:
    """Why a route for GPUs refuses x; nothing when x lies on one."""
    return "" if x.is_cuda else "needs a CUDA GPU"


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
