"""The ops of the wide path against their references in float64, for the interpreter and for a GPU alike.

Each function returns the largest error beside what the float16 operands themselves have lost.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from harness.baseline import TransformerConfig
from model.ops import layernorm, library, matmul, wide
from model.ops.attention import Heads, Walk, attention, reference
from model.ops.matmul import Tiles, Weight
from model.ops.operand import Operand
from model.packing import pack, split
from model.precision import NAMED
from tests.device.model_cases import inputs, mask_of
from tests.device.stack_cases import loaded


def normal(*shape: int, seed: int = 3) -> Tensor:
    """Normal numbers in float64."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def operand_of(value: Tensor, is_split: bool, tripled: bool = False, device: str = "cpu") -> Operand:
    """A float64 [T,W] as an operand."""
    high, low = split(value)
    if tripled and is_split:
        memory = torch.cat([low, high, high], 1)
    else:
        memory = torch.stack([high, low][: 1 + is_split])
    return Operand(memory.to(device), len(value), value.shape[1], is_split, tripled and is_split)


class Norm(NamedTuple):
    """A LayerNorm: rows, width, padded width, and what the input is."""

    tokens: int
    width: int
    padded: int
    scale: float = 1.0
    offset: float = 0.0


def layernorm_errors(case: Norm, is_split: bool, tripled: bool, device: str = "cpu") -> tuple[float, float]:
    """The errors of `operand` and of `final`; what is padded, and rows that do not count, must be zero."""
    x = (normal(case.tokens, case.width) * case.scale + case.offset).float()
    weight, bias = normal(2, case.padded, seed=4).float()
    valid = normal(case.tokens, seed=5) > -0.5
    made = layernorm.operand(x.to(device), case.padded, is_split, tripled).value().cpu()
    assert not made[:, case.width :].any()
    found = (made[:, : case.width] - layernorm.reference(x.double())).abs().max()
    x_, weight_, bias_, valid_ = (tensor.to(device) for tensor in (x, weight, bias, valid))
    y = layernorm.final(x_, weight_, bias_, valid_, torch.float32).cpu()
    expected = layernorm.reference(x.double(), *(p[: case.width].double() for p in (weight, bias)))
    return float(found), float((y - expected * valid[:, None]).abs().max())


class Product(NamedTuple):
    """A product [tokens,depth] @ [depth,columns]; `biased` columns have a bias; `kept` are stored."""

    tokens: int
    depth: int
    columns: int
    biased: int
    kept: int


def matmul_errors(
    case: Product, is_split: bool, tiles: Tiles | None, by: str = "triton", device: str = "cpu"
) -> tuple[float, float]:
    """The errors of `to_operand` with GELU, and of `to_residual` where residual and target are one tensor."""
    op, tripled = (library, True) if by == "cublas" else (matmul, False)
    a = operand_of(normal(case.tokens, case.depth), is_split, tripled, device)
    exact = normal(case.depth, case.columns, seed=4) / case.depth**0.5
    weight = Weight(torch.stack(split(exact * 64)[: 1 + is_split]), 1 / 64)
    value = weight.halves.double().sum(0) / 64
    weight = Weight(weight.halves.to(device), weight.unscale)
    weight = library.tripled(weight) if tripled else weight
    bias = normal(case.columns, seed=5).float()
    short = bias[: case.biased]
    hidden = op.to_operand(a, weight, short.to(device), True, is_split, False, tiles).value().cpu()
    expected = matmul.reference(a.value().cpu(), value, short.double(), gelu=True)
    stream = normal(case.tokens, case.kept, seed=6).float()
    summed = matmul.reference(a.value().cpu(), value, bias.double(), residual=stream.double())
    target = stream.to(device)
    op.to_residual(a, weight, bias.to(device), target, target, tiles)
    return float((hidden - expected).abs().max()), float((target.cpu() - summed).abs().max())


class Attended(NamedTuple):
    """An attention: sizes, the mask's kind (one of MASKS), the scale of q and k."""

    batch: int
    seq_len: int
    heads: int
    padded: int
    causal: bool
    mask: str = "none"
    scale: float = 1.0


def attention_error(case: Attended, is_split: bool, walk: Walk | None, device: str = "cpu") -> float:
    """The error against the reference on the very halves that the op has read."""
    shape = case.batch, case.seq_len, 3, case.heads, case.padded
    x = normal(*shape)
    x[:, :, :2] *= case.scale
    across = case.heads * case.padded
    qkv = operand_of(x.view(-1, 3 * across), is_split, device=device)
    config = TransformerConfig(case.batch, case.seq_len, across, case.heads, 1, 1, case.causal)
    valid = mask_of(case.mask, config)
    heads = Heads(case.heads, case.padded)
    on_device = None if valid is None else valid.to(device)
    found = attention(qkv, heads, case.seq_len, on_device, case.causal, is_split, walk).value().cpu()
    q, k, v = qkv.value().cpu().view(shape).permute(2, 0, 3, 1, 4)
    expected = reference(q, k, v, valid, case.causal).transpose(1, 2).reshape(-1, across)
    return float((found - expected).abs().max())


def wide_error(
    config: TransformerConfig, mask: str, precision: str, cut: wide.Cut, device: str = "cpu"
) -> tuple[float, bool]:
    """The error of the whole op, and whether every row that does not count is zero."""
    weights = loaded(config)
    x, valid = inputs(config), mask_of(mask, config)
    tensors = weights.double().tensors(fused=False)
    expected = wide.reference(x.double(), valid, tensors, config.num_heads, config.causal)
    packed = pack(weights.float().to(device))
    op = wide.Wide(packed, config.d_model, config.causal, NAMED[precision], cut)
    y = op(x.to(device), None if valid is None else valid.to(device)).cpu()
    return float((y - expected).abs().max()), valid is None or not y[~valid].any()
