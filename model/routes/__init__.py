"""What a route is: each file here defines one as a class named `Route`; the file's name is the route's.

A file's first line says what the route does. `SERVES`, where a file has it, says which choices may take the
route, and under which levers: `ferry tune` reads both from the text, so they are literals.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from ..chunking import Parts
from ..levers import Settings
from ..weights import Weights


class Route(ABC):
    """One way to run the model. After a run its attributes say what really ran.

    `ran`: the name of the route that did the work; `note`: why, when that is another one; `compile_s`:
    seconds spent in compilation, None where nothing is compiled. `valid` is a boolean mask [B,S], True where
    a token counts, or None when all do; no route waits for the device to look into it.
    """

    ran: str
    note: str = ""
    compile_s: float | None = None

    @abstractmethod
    def run(self, x: Tensor, valid: Tensor | None, weights: Weights, levers: Settings) -> Tensor:
        """Map x [B,S,D] to a fresh [B,S,D] with zeros where a token does not count; x is only read."""

    @abstractmethod
    def bytes_per_row(self, x: Tensor, valid: Tensor | None, weights: Weights, levers: Settings) -> int:
        """An estimate of the bytes that one row of the batch takes at its worst moment, x not counted."""

    def parts(self, x: Tensor, weights: Weights, levers: Settings) -> Parts | None:
        """What one row takes when its sequence runs in parts of `levers.tokens`; None where it cannot."""
        del x, weights, levers
        return None

    def refusal(self, x: Tensor, weights: Weights, levers: Settings) -> str:
        """Why the route cannot serve x [B,S,D] as asked; nothing when it can."""
        del x, weights, levers
        return ""
