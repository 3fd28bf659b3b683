"""An operand of products in memory: float16, whole or as two halves, and how the ops write and read it.

    halves apart:  [2,T,W], high then low                  what our own products and attention read
    tripled:       [T,3W], each row low | high | high      what one cuBLAS product reads, against weights
                                                           high over low over high: low-order terms first

Source of the tripled form: three products of halves are one product with K tripled (Markidis et al., arXiv
1803.04014, in one call); what halves are: `model.precision`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Operand:
    """`memory` holds T rows of W elements: [1 or 2,T,W], or [T,3W] when tripled."""

    memory: Tensor
    tokens: int
    width: int
    split: bool
    tripled: bool

    @classmethod
    def empty(cls, tokens: int, width: int, split: bool, tripled: bool, device: torch.device) -> Operand:
        """One that nothing is written to yet; only halves can be tripled."""
        tripled = tripled and split
        shape = (tokens, 3 * width) if tripled else (1 + split, tokens, width)
        return cls(torch.empty(shape, dtype=torch.float16, device=device), tokens, width, split, tripled)

    @property
    def stride(self) -> int:
        """Elements from a row to the next."""
        return self.memory.stride(-2)

    @property
    def lo_offset(self) -> int:
        """Elements from the high half to the low one, negative when tripled; the high half stands second."""
        return -self.width if self.tripled else self.memory.stride(0)

    @property
    def matrix(self) -> Tensor:
        """What cuBLAS reads: [T,W], or [T,3W] when tripled."""
        return self.memory if self.tripled else self.memory[0]

    @property
    def high(self) -> Tensor:
        """The high half [T,W], where reading begins."""
        return self.memory[:, self.width :] if self.tripled else self.memory[0]

    def value(self) -> Tensor:
        """What it stands for, [T,W] in float64."""
        if self.tripled:
            low, high, _ = self.memory.double().chunk(3, 1)
            return high + low
        return self.memory.double().sum(0)
