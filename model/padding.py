"""Padding with no look at it: nothing here waits for the device to learn what a mask holds."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Front(NamedTuple):
    """Where each token stands once the valid ones of its row are first, in their order.

    Under causality attention then needs no mask of keys: valid tokens see valid ones only, and position
    enters by that order alone. A mask whose rows are prefixes already moves nothing.
    """

    place: Tensor  # [B,S] int64, a permutation in each row
    valid: Tensor  # [B,S] bool, a prefix in each row

    @classmethod
    def of(cls, valid: Tensor) -> Front:
        """Find the places for a boolean mask [B,S], True where a token counts."""
        count = valid.cumsum(1)
        positions = torch.arange(valid.shape[1], device=valid.device)
        length = count[:, -1:]
        return cls(torch.where(valid, count - 1, length + positions - count), positions < length)

    def pack(self, x: Tensor) -> Tensor:
        """A copy of x [B,S,D] with the valid tokens first."""
        index = self.place[..., None].expand_as(x)
        return torch.empty(x.shape, dtype=x.dtype, device=x.device).scatter_(1, index, x)

    def unpack(self, packed: Tensor) -> Tensor:
        """A copy of packed [B,S,D] with each token back in its place."""
        return packed.gather(1, self.place[..., None].expand_as(packed))


def rows(valid: Tensor | None, start: int, stop: int) -> Tensor | None:
    """The mask of rows `start` to `stop` of the batch."""
    return None if valid is None else valid[start:stop]
