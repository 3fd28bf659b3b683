"""What stands between products in CUDA C++: LayerNorm, and bias, GELU, residual after a product of cuBLAS.

    n = (x - mean(x)) / sqrt(var(x) + 1e-5)         as a product's operand, or g * n + c in the caller's type
    t = product * unscale + bias                    as an operand, or an operand of gelu(t), or residual + t

as the ops `layernorm` and `library` compute them. In CUDA C++, like attention, so that a card that Triton
does not support needs one compiler and not two.

Sources: as of `layernorm` and `library`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .cuda_driver import Load, Start
from .cuda_rows_text import TEXT
from .cuda_tiles_text import HALVES, WARP
from .launching import current_stream
from .layernorm import reference
from .matmul import Weight
from .operand import Operand
from .sizes import blocks

__all__ = ["Rows", "reference"]

THREADS = 128
ROWS_OF_A_BLOCK = 4  # of LayerNorm: one for each warp
ROWS_OF_A_THREAD = 8  # of what follows a product
FORMS = {torch.float32: 1, torch.float16: 2, torch.bfloat16: 3}
OPERAND = 0
LAYERNORM = "PPPPPiiiiiqqqq"
FINISH = "PPPPiiiiiiiifqqq"


class Rows:
    """The ops, loaded for one device."""

    def __init__(self, load: Load) -> None:
        def loaded(name: str, signature: str) -> Start:
            return load(WARP + HALVES + TEXT, name, signature, 0, {})

        self._layernorm, self._finish = loaded("layernorm", LAYERNORM), loaded("finish", FINISH)

    def normalise(self, x: Tensor, out: Operand) -> Operand:
        """Write x [T,D], of any type in FORMS, normalised to out [T,W], zero beyond D."""
        self._normalise(x, out.high, out.width, OPERAND, *_places(out), None, None, None)
        return out

    def final(self, x: Tensor, weight: Tensor, bias: Tensor, valid: Tensor | None, target: Tensor) -> Tensor:
        """Write x [T,D] normalised, with weight and bias, to target [T,D]; zero where valid [T] is False."""
        form = FORMS[target.dtype]
        self._normalise(x, target, target.shape[1], form, target.stride(0), 0, 0, weight, bias, valid)
        return target

    def _normalise(
        self,
        x: Tensor,
        target: Tensor,
        width: int,
        form: int,
        stride: int,
        low: int,
        again: int,
        weight: Tensor | None,
        bias: Tensor | None,
        valid: Tensor | None,
    ) -> None:
        tokens, depth = x.shape
        if x.stride(1) != 1 or target.stride(1) != 1:
            raise ValueError(f"rows of contiguous elements, not {x.stride()} and {target.stride()}")
        self._layernorm(
            blocks(tokens, ROWS_OF_A_BLOCK), THREADS, current_stream(x),
            x, target, weight, bias, valid, tokens, depth, width, FORMS[x.dtype], form,
            x.stride(0), stride, low, again,
        )  # fmt: skip

    def to_operand(self, a: Tensor, weight: Weight, bias: Tensor, gelu: bool, out: Operand) -> Operand:
        """Write the product of a [T,K] and weight [1,K,N] to out [T,N]; both tripled, or neither."""
        product = multiply(a, weight)
        places = _places(out)
        self._end(product, weight, bias, gelu, None, out.high, out.width, OPERAND, *places)
        return out

    def to_residual(self, a: Tensor, weight: Weight, bias: Tensor, residual: Tensor, target: Tensor) -> None:
        """Write residual [T,D] + the product's first D columns to float32 target [T,D], which may be it."""
        if target.dtype != torch.float32 or residual.shape != target.shape or not residual.is_contiguous():
            raise ValueError(f"a residual {tuple(residual.shape)} for {target.dtype} {tuple(target.shape)}")
        product = multiply(a, weight)
        stored = target.shape[1]
        self._end(product, weight, bias, False, residual, target, stored, FORMS[target.dtype], stored, 0, 0)

    def _end(
        self,
        product: Tensor,
        weight: Weight,
        bias: Tensor,
        gelu: bool,
        residual: Tensor | None,
        target: Tensor,
        stored: int,
        form: int,
        stride: int,
        low: int,
        again: int,
    ) -> None:
        tokens, columns = product.shape
        across = blocks(stored, THREADS)
        self._finish(
            blocks(tokens, ROWS_OF_A_THREAD) * across, THREADS, current_stream(product),
            product, bias, residual, target, tokens, columns, stored, len(bias), ROWS_OF_A_THREAD, gelu,
            0 if residual is None else FORMS[residual.dtype], form, weight.unscale, stride, low, again,
        )  # fmt: skip


def multiply(a: Tensor, weight: Weight) -> Tensor:
    """a [T,K] @ weight [1,K,N] in float32, by cuBLAS; of a whole operand the first third of K is all."""
    right = weight.halves[0][: a.shape[1]]
    if a.shape[1] != len(right):
        raise ValueError(f"operand {tuple(a.shape)} and weight {tuple(right.shape)} do not fit")
    if not a.is_cuda:
        return a.float() @ right.float()
    product: Tensor = torch.mm(a, right, out_dtype=torch.float32)
    return product


def _places(out: Operand) -> tuple[int, int, int]:
    """Elements from a row to the next, to the low half, to the high half's copy; 0 where there is none."""
    return out.stride, out.lo_offset if out.split else 0, out.width if out.tripled else 0
