"""The judge's ledger: the contract's verdicts on the blocks of one output, added up."""

from __future__ import annotations

from torch import Tensor

from harness.blocks import Block, within
from harness.channel import Figures
from harness.drawing import Drawn
from harness.gate import SHOWN_FEATURE_DIMS, Worst, worst_share


class Ledger:
    """Holds each block to the contract's own comparison, and keeps the worst of each figure."""

    def __init__(self, drawn: Drawn, reference: str) -> None:
        self._compare = drawn.contract.compare_outputs
        self._tolerances = (drawn.settings.rtol, drawn.settings.atol)
        self._reference = reference
        self._passed = True
        self._failed = self._total = 0
        self._max_abs = self._max_rel = 0.0
        self._worst = Worst(-1.0, (), 0.0, 0.0)
        self._dims: set[int] = set()

    def add(self, row: int, block: Block, reference: Tensor, output: Tensor) -> None:
        """Take in a block of the part that begins at a row of the batch."""
        result = self._compare(reference, output, *self._tolerances)
        self._passed &= bool(result.passed)
        self._failed += int(result.failed_elements)
        self._total += int(result.total_elements)
        self._max_abs = _worse(self._max_abs, float(result.max_abs_error))
        self._max_rel = _worse(self._max_rel, float(result.max_relative_error))
        self._dims |= set(getattr(result, "failed_feature_dims", ()))
        found = worst_share(reference, output, *self._tolerances)
        if found.share > self._worst.share:
            first, *others = within(block, found.index)
            index = (first + row, *others)
            self._worst = Worst(found.share, index, found.reference, found.optimized)

    def figures(self, elements: int, dtype_share: float | None) -> Figures:
        """Return what it comes to, of an output of so many elements."""
        rtol, atol = self._tolerances
        return Figures(
            passed=self._passed,
            failed_elements=self._failed,
            total_elements=self._total,
            max_abs=self._max_abs,
            max_rel=self._max_rel,
            gate_share=self._worst.share,
            rtol=float(rtol),
            atol=float(atol),
            worst_index=self._worst.index,
            worst_reference=self._worst.reference,
            worst_output=self._worst.optimized,
            failed_dims=tuple(sorted(self._dims)[:SHOWN_FEATURE_DIMS]),
            reference=self._reference,
            coverage=self._total / elements,
            dtype_share=dtype_share,
        )


def _worse(one: float, other: float) -> float:
    """The larger; what is no number is worse than any."""
    return one if one > other or one != one else other
