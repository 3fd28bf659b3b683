"""What routes of tensor-core ops have in common: packed weights, what they refuse, ops kept by settings."""

from __future__ import annotations

import functools
import os
from abc import abstractmethod
from collections.abc import Callable
from importlib.util import find_spec

import torch
from torch import Tensor

from ..levers import Settings
from ..packing import Packed, Packing
from ..weights import Weights
from ._attempt import Attempt

LEAST_CAPABILITY = (8, 0)  # Triton has no tensor-core products on older cards
INTERPRETED = "TRITON_INTERPRET"  # Triton runs its functions on a CPU then, to try them

Op = Callable[[Tensor, "Tensor | None"], Tensor]


class TensorCores(Attempt):
    """Keeps the weights packed, and one op for each setting; refuses what the op cannot serve."""

    doing = "Triton"

    def __init__(self) -> None:
        super().__init__()
        self._packing = Packing(self.pack)
        self._packed: Packed | None = None
        self._beyond = ""
        self._ops: dict[tuple[str, ...], Op] = {}

    @abstractmethod
    def pack(self, weights: Weights) -> Packed:
        """The weights as the op takes them."""

    def device_refusal(self, device: torch.device) -> str:
        """Why the op cannot run on a device, "" when it can."""
        return device_refusal(device)

    @abstractmethod
    def op_refusal(self, x: Tensor, weights: Weights) -> str:
        """Why the op cannot serve x and a model of these sizes, "" when it can."""

    @abstractmethod
    def make(self, packed: Packed, weights: Weights, levers: Settings) -> Op:
        """The op over packed weights."""

    def refusal(self, x: Tensor, weights: Weights, levers: Settings) -> str:
        """No fitting GPU, no Triton, sizes that the op does not serve, or weights beyond float16."""
        return self.device_refusal(x.device) or self.op_refusal(x, weights) or self.changed(weights)

    def changed(self, weights: Weights) -> str:
        """Weights beyond float16; packs them when they have changed."""
        packed = self._packing.of(weights)
        if packed is not self._packed:
            self._packed, self._beyond = packed, packed.refusal
            self._ops.clear()
        return self._beyond

    def attempt(self, x: Tensor, valid: Tensor | None, weights: Weights, levers: Settings) -> Tensor:
        """Run the op over the weights that `refusal` has just seen."""
        return self.op(weights, levers)(x, valid)

    def op(self, weights: Weights, levers: Settings) -> Op:
        """The op for these settings, made when it is first asked for."""
        key = (levers.precision, levers.products, levers.attention)
        op = self._ops.get(key)
        if op is None:
            assert self._packed is not None
            op = self._ops[key] = self.make(self._packed, weights, levers)
        return op


@functools.cache
def device_refusal(device: torch.device) -> str:
    """Why Triton's products cannot run on a device, "" when they can."""
    if find_spec("triton") is None:
        return "needs Triton"
    if os.environ.get(INTERPRETED) == "1":
        return ""
    if device.type != "cuda":
        return "needs a CUDA GPU"
    found = torch.cuda.get_device_capability(device)
    least = ".".join(map(str, LEAST_CAPABILITY))
    return "" if found >= LEAST_CAPABILITY else f"needs capability {least}, this is {found[0]}.{found[1]}"
