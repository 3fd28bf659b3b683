"""The op `matmul` by cuBLAS: one product, K tripled for halves, and a kernel for what follows.

    t = (a' @ w') * unscale + bias,  a' = [a_lo | a_hi | a_hi],  w' = [w_hi; w_lo; w_hi]

Low-order terms come first. The same results and the same two functions as `matmul`; which is faster where is
measured. Needs a torch whose `mm` takes `out_dtype`.

Source: one product with K tripled, as measured in a public ablation of the contest's field; see `operand`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .matmul import Tiles, Weight, reference
from .operand import Operand
from .sizes import blocks

__all__ = ["reference", "to_operand", "to_residual", "tripled"]

BLOCK_M, BLOCK_N = 8, 256


def tripled(weight: Weight) -> Weight:
    """The weight as these functions take it: halves [2,K,N] become one [1,3K,N]; whole it stays."""
    if len(weight.halves) == 1:
        return weight
    high, low = weight.halves
    return Weight(torch.cat([high, low, high])[None], weight.unscale)


def to_operand(
    a: Operand,
    weight: Weight,
    bias: Tensor,
    gelu: bool,
    split: bool,
    tripled: bool = False,
    tiles: Tiles | None = None,
) -> Operand:
    """As `matmul.to_operand`, of a tripled operand and weight; cuBLAS chooses its tiles itself."""
    del tiles
    columns = weight.halves.shape[2]
    out = Operand.empty(a.tokens, columns, split, tripled, a.memory.device)
    _finish(_product(a, weight), weight, bias, out.memory, out.memory, columns, gelu=gelu, out=out)
    return out


def to_residual(
    a: Operand, weight: Weight, bias: Tensor, residual: Tensor, target: Tensor, tiles: Tiles | None = None
) -> Tensor:
    """As `matmul.to_residual`, of a tripled operand and weight."""
    del tiles
    if target.dtype != torch.float32 or residual.shape != target.shape or not residual.is_contiguous():
        raise ValueError(f"a residual {tuple(residual.shape)} for {target.dtype} {tuple(target.shape)}")
    _finish(_product(a, weight), weight, bias, target, residual, target.shape[1])
    return target


def _product(a: Operand, weight: Weight) -> Tensor:
    """[T,N] float32."""
    left = a.matrix
    right = weight.halves[0][: left.shape[1]]  # of a whole operand the first third, the high half, is all
    if left.shape[1] != right.shape[0]:
        raise ValueError(f"operand {tuple(left.shape)} and weight {tuple(right.shape)} do not fit")
    if not left.is_cuda:
        return left.float() @ right.float()
    product: Tensor = torch.mm(left, right, out_dtype=torch.float32)
    return product


def _finish(
    product: Tensor,
    weight: Weight,
    bias: Tensor,
    target: Tensor,
    residual: Tensor,
    stored: int,
    gelu: bool = False,
    out: Operand | None = None,
) -> None:
    from .matmul_kernel import finish_kernel

    tokens, columns = product.shape
    tiles_n = blocks(stored, BLOCK_N)
    finish_kernel[(blocks(tokens, BLOCK_M) * tiles_n,)](
        product,
        bias,
        residual,
        target,
        tokens,
        out.stride if out else stored,
        out.lo_offset if out else 0,
        weight.unscale,
        N=columns,
        STORED=stored,
        BIASED=len(bias),
        GELU=gelu,
        RESIDUAL=out is None,
        OUT_SPLIT=out is not None and out.split,
        OUT_TRIPLED=out is not None and out.tripled,
        TILES_N=tiles_n,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
    )
