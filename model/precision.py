"""How exactly each group of matrix products is computed: the settings that the tensor-core ops take.

`split`: each operand is the sum of two float16 halves, high and low, and three tensor-core products of them
(low·high, high·low, high·high; low·low is below what float32 holds) add up in float32: float32's class of
error. `half`: the operands are rounded to float16 once, one product. Sums are float32 either way, and the
residual stream, LayerNorm, the softmax and GELU are float32 always. Standard library only.

Source: Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the FP32
theoretical peak performance", arXiv 2203.03341; the low halves are not scaled here, see `packing`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Operands = Literal["split", "half"]


class Precision(NamedTuple):
    """The operands of each group: q, k and v's products; the attention's two; its output's; the FFN's two."""

    qkv: Operands
    attention: Operands
    out: Operands
    ffn: Operands

    @property
    def is_split(self) -> bool:
        """Whether any group needs the low halves of its operands."""
        return "split" in self


SAFE = Precision("split", "split", "split", "split")
FAST = Precision("split", "half", "split", "split")
FP16 = Precision("half", "half", "half", "half")
NAMED = {"safe": SAFE, "fast": FAST, "fp16": FP16}
