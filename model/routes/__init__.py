"""What a route is: each file here defines one as a class named `Route`; the file's name is the route's."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from ..levers import Settings
from ..padding import Padding
from ..weights import Weights


class Route(ABC):
    """One way to run the model. After a run its attributes say what really ran.

    `ran`: the name of the route that did the work; `note`: why, when that is another one; `compile_s`:
    seconds spent in compilation, None where nothing is compiled.
    """

    ran: str
    note: str = ""
    compile_s: float | None = None

    @abstractmethod
    def run(self, x: Tensor, padding: Padding, weights: Weights, levers: Settings) -> Tensor:
        """Map x [B,S,D] to a fresh [B,S,D] with zeros where a token does not count; x is only read."""

    @abstractmethod
    def bytes_per_row(self, x: Tensor, padding: Padding, weights: Weights) -> int:
        """An estimate of the bytes that one row of the batch takes at its worst moment, x not counted."""
