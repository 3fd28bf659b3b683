"""LayerNorm, written for what reads it next: a product's float16 operand, or the caller's output.

    n = (x - mean(x)) / sqrt(var(x) + 1e-5);  y = g * n + c

`operand` writes n alone, as one half or both, since the packed weights hold g and c. `final` writes y in the
caller's type, zero where a token does not count. One program takes a few whole rows; all in float32.

Source: Ba, Kiros and Hinton, arXiv 1607.06450; halves: see `model.precision`.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from .operand import Operand
from .sizes import blocks, power_of_two

MOST_WIDTH = 16384
ELEMENTS = 4096  # of a program's rows; fewer rows when they are wide


def reference(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """The same in plain torch and x's dtype."""
    return functional.layer_norm(x, x.shape[-1:], weight, bias)


def operand(x: Tensor, width: int, split: bool, tripled: bool = False) -> Operand:
    """Normalise x [T,D] as a product's operand [T,width], zero beyond D."""
    out = Operand.empty(len(x), width, split, tripled, x.device)
    _launch(x, out.memory, width, out=out)
    return out


def final(x: Tensor, weight: Tensor, bias: Tensor, valid: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Normalise x [T,D] with weight and bias, of D elements at least, as a fresh [T,D] of this dtype.

    valid [T], contiguous: rows where it is False are zero.
    """
    out = torch.empty(x.shape, dtype=dtype, device=x.device)
    _launch(x, out, x.shape[1], weight=weight, bias=bias, valid=valid)
    return out


def _launch(
    x: Tensor,
    target: Tensor,
    width: int,
    out: Operand | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    valid: Tensor | None = None,
) -> None:
    from .layernorm_kernel import layernorm_kernel

    tokens, depth = x.shape
    if not (depth <= width <= MOST_WIDTH) or x.stride(1) != 1:
        raise ValueError(f"rows of {depth} contiguous elements, up to {MOST_WIDTH}, not {tuple(x.stride())}")
    block = power_of_two(width)
    rows = max(1, min(16, ELEMENTS // block))
    layernorm_kernel[(blocks(tokens, rows),)](
        x,
        target,
        x if weight is None else weight,
        x if bias is None else bias,
        x if valid is None else valid,
        tokens,
        x.stride(0),
        out.stride if out else depth,
        out.lo_offset if out else 0,
        D=depth,
        WIDTH=width,
        BLOCK=block,
        ROWS=rows,
        OPERAND=out is not None,
        SPLIT=out is not None and out.split,
        TRIPLED=out is not None and out.tripled,
        MASKED=valid is not None,
        num_warps=4 if block * rows <= ELEMENTS else 8,
    )
