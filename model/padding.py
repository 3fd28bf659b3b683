"""What a mask of valid tokens asks of a route, found out once a forward."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Padding:
    """The tokens that count: `valid` [B,S], None when all do. `holes`: in some row they are no prefix."""

    valid: Tensor | None = None
    holes: bool = False

    @classmethod
    def of(cls, valid_token_mask: Tensor | None) -> Padding:
        """Look at a boolean mask [B,S], True where a token counts. Waits for the device."""
        mask = valid_token_mask
        if mask is None or bool(mask.all()):
            return cls()
        return cls(mask, holes=bool((mask[:, 1:] & ~mask[:, :-1]).any()))

    def rows(self, start: int, stop: int) -> Padding:
        """The same for rows `start` to `stop`; `holes` stays the whole batch's, so that all run alike."""
        return self if self.valid is None else Padding(self.valid[start:stop], self.holes)
