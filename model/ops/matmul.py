"""A product with float16 operands, whole or as halves, float32 sums, and what follows it fused in.

    t = (a @ w) * unscale + bias
    operand:   out = halves(t)  or  halves(gelu(t))      what the next product or attention reads
    residual:  out = residual + t                        float32

Halves: a_lo·w_hi + a_hi·w_lo + a_hi·w_hi, in one accumulator; either each over the whole depth before the
next (`ordered`: low-order terms first), or all at each step of the depth, which reads each tile once. Tiles
are walked in groups of rows, so that their neighbours in time share operands in L2.

Sources: split products: `model.precision`; grouped order: Triton's tutorial 03 (matrix multiplication).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from .operand import Operand
from .sizes import blocks, is_hopper, processors


class Weight(NamedTuple):
    """One layer's weight: `halves` [1 or 2,K,N], high then low; a product is multiplied by `unscale`."""

    halves: Tensor
    unscale: float


class Tiles(NamedTuple):
    """How the product is cut: the knobs that are measured, not reasoned about."""

    block_m: int = 128
    block_n: int = 128
    block_k: int = 32
    group_m: int = 8
    warps: int = 8
    stages: int = 3
    ordered: bool = False
    descriptors: bool = False
    persistent: bool = False


def reference(
    a: Tensor, weight: Tensor, bias: Tensor, gelu: bool = False, residual: Tensor | None = None
) -> Tensor:
    """The same in plain torch: a [T,K], weight [K,N], bias of N elements or fewer, the rest zero."""
    t = a @ weight + functional.pad(bias, (0, weight.shape[1] - len(bias)))
    t = functional.gelu(t) if gelu else t
    return t if residual is None else residual + t[:, : residual.shape[1]]


def to_operand(
    a: Operand,
    weight: Weight,
    bias: Tensor,
    gelu: bool,
    split: bool,
    tripled: bool = False,
    tiles: Tiles | None = None,
) -> Operand:
    """The product of a [T,K] and weight [K,N] as an operand [T,N]; bias float32, of N elements or fewer."""
    out = Operand.empty(a.tokens, weight.halves.shape[2], split, tripled, a.memory.device)
    _launch(a, weight, bias, out.memory, tiles, gelu=gelu, out=out)
    return out


def to_residual(
    a: Operand, weight: Weight, bias: Tensor, residual: Tensor, target: Tensor, tiles: Tiles | None = None
) -> Tensor:
    """Write residual [T,D] + the product's first D columns to float32 target [T,D], which may be it."""
    if target.dtype != torch.float32 or residual.shape != target.shape or not residual.is_contiguous():
        raise ValueError(f"a residual {tuple(residual.shape)} for {target.dtype} {tuple(target.shape)}")
    _launch(a, weight, bias, target, tiles, residual=residual)
    return target


def _launch(
    a: Operand,
    weight: Weight,
    bias: Tensor,
    target: Tensor,
    tiles: Tiles | None,
    gelu: bool = False,
    out: Operand | None = None,
    residual: Tensor | None = None,
) -> None:
    from .matmul_kernel import matmul_kernel

    parts, depth, columns = weight.halves.shape
    if (
        depth != a.width
        or (a.split and parts != 2)
        or len(bias) > columns
        or not weight.halves.is_contiguous()
    ):
        raise ValueError(f"operand [{a.tokens},{a.width}] and weight {tuple(weight.halves.shape)} do not fit")
    cut = tiles or default_tiles(a.tokens, columns, a.split, residual is not None, a.memory.device)
    count = blocks(a.tokens, cut.block_m) * blocks(columns, cut.block_n)
    programs = min(count, processors(a.memory.device)) if cut.persistent else count
    first, second = _arguments(a, weight, cut)
    matmul_kernel[(programs,)](
        first,
        second,
        bias,
        target,
        target if residual is None else residual,
        a.tokens,
        a.stride,
        a.lo_offset,
        target.shape[1] if out is None else out.stride,
        0 if out is None else out.lo_offset,
        weight.unscale,
        K=depth,
        N=columns,
        STORED=columns if out is not None else target.shape[1],
        BIASED=len(bias),
        SPLIT=a.split,
        GELU=gelu,
        RESIDUAL=residual is not None,
        OUT_SPLIT=out is not None and out.split,
        OUT_TRIPLED=out is not None and out.tripled,
        BLOCK_M=cut.block_m,
        BLOCK_N=cut.block_n,
        BLOCK_K=cut.block_k,
        GROUP_M=cut.group_m,
        STAGES=cut.stages,
        ORDERED=cut.ordered and a.split,
        DESCRIPTORS=cut.descriptors,
        PERSISTENT=cut.persistent,
        num_warps=cut.warps,
    )


def _arguments(a: Operand, weight: Weight, cut: Tiles) -> tuple[object, object]:
    """Pointers, or tensor descriptors: the high half's rows, then the low half's."""
    if not cut.descriptors:
        return a.high, weight.halves
    from triton.tools.tensor_descriptor import TensorDescriptor

    rows, weights = a.memory.view(-1, a.width), weight.halves.view(-1, weight.halves.shape[2])
    return (
        TensorDescriptor.from_tensor(rows, [cut.block_m, cut.block_k]),
        TensorDescriptor.from_tensor(weights, [cut.block_k, cut.block_n]),
    )


def default_tiles(tokens: int, columns: int, split: bool, residual: bool, device: torch.device) -> Tiles:
    """The cut for a product where none was measured: large tiles where they fill the device.

    Onto a residual they are narrower, since its float32 rows pass through registers, too.
    """
    large = Tiles()
    if is_hopper(device):
        large = Tiles(128, 128, 64) if residual else Tiles(128, 256, 32 if split else 64)
    for tiles in (large, Tiles(), Tiles(64, 128, 32, warps=4), Tiles(64, 64, 32, warps=4)):
        if blocks(tokens, tiles.block_m) * blocks(columns, tiles.block_n) >= processors(device):
            return tiles
    return Tiles(32, 64, 64, warps=4)
