"""The CUDA C++ ops against their references in float64, for a CPU that plays a GPU and for a GPU alike."""

from __future__ import annotations

from typing import NamedTuple

import torch

from harness.baseline import TransformerConfig
from model.ops import cuda_wide, library, matmul
from model.ops.attention import Heads, reference
from model.ops.cuda_attention import Span, Walk, attention
from model.ops.cuda_driver import Load
from model.ops.cuda_rows import Rows
from model.ops.cuda_rows import reference as reference_rows
from model.ops.matmul import Weight
from model.ops.operand import Operand
from model.packing import pack
from model.packing import split as split_float64
from model.precision import NAMED
from tests.device.model_cases import inputs, mask_of
from tests.device.op_cases import normal, operand_of
from tests.device.stack_cases import loaded


class Attended(NamedTuple):
    """An attention: sizes, the mask's kind (one of MASKS), the scale of q and k, the first query."""

    batch: int
    seq_len: int
    heads: int
    padded: int
    causal: bool = True
    mask: str = "none"
    scale: float = 1.0
    first: int = 0


def attention_error(
    load: Load,
    case: Attended,
    split: bool,
    walk: Walk | None = None,
    tripled: bool = False,
    device: str = "cpu",
) -> float:
    """The error against the reference on the very halves that the op has read."""
    shape = case.batch, case.seq_len, 3, case.heads, case.padded
    x = normal(*shape)
    x[:, :, :2] *= case.scale
    across, queries = case.heads * case.padded, case.seq_len - case.first
    memory = operand_of(x.view(-1, 3 * across), split, device=device).memory
    config = TransformerConfig(case.batch, case.seq_len, across, case.heads, 1, 1, case.causal)
    valid = mask_of(case.mask, config)
    q, k, v = (memory[..., start : start + across] for start in (0, across, 2 * across))
    if case.first:
        q = q.view(len(q), case.batch, case.seq_len, across)[:, :, case.first :].flatten(1, 2)
    out = Operand.empty(case.batch * queries, across, split, tripled, memory.device)
    out.memory.fill_(float("nan"))
    on_device = None if valid is None else valid.to(device)
    span = Span(queries, case.seq_len, case.first)
    attention(load, q, k, v, Heads(case.heads, case.padded), span, on_device, case.causal, out, walk)
    whole = memory.double().sum(0).cpu().view(shape).permute(2, 0, 3, 1, 4)
    expected = (
        reference(whole[0], whole[1], whole[2], valid, case.causal)[:, :, case.first :]
        .transpose(1, 2)
        .reshape(-1, across)
    )
    if out.tripled:
        _, high, again = out.memory.chunk(3, 1)
        assert (high == again).all()
    return float((out.value().cpu() - expected).abs().max())


def rows_errors(load: Load, dtype: torch.dtype, split: bool, device: str = "cpu") -> dict[str, float]:
    """The errors of what stands between products: odd widths, padding, all that is written."""
    tokens, width, padded = 11, 35, 48
    rows = Rows(load)
    x = (normal(tokens, width) * 3 + 1).to(dtype)
    weight, bias = normal(2, padded, seed=4).float()
    valid = normal(tokens, seed=5) > -0.5
    made = Operand.empty(tokens, padded, split, True, torch.device(device))
    rows.normalise(x.to(device), made)
    n = reference_rows(x.double())
    found = {"padding": float(made.value()[:, width:].abs().max())}
    found["operand"] = float((made.value().cpu()[:, :width] - n).abs().max())
    y = torch.empty(tokens, width, dtype=dtype, device=device)
    rows.final(x.to(device), weight.to(device), bias.to(device), valid.to(device), y)
    expected = reference_rows(x.double(), weight[:width].double(), bias[:width].double()) * valid[:, None]
    found["final"] = float(((y.cpu() - expected).abs() / (1 + expected.abs())).max())

    a = operand_of(normal(tokens, padded), split, True, device)
    halves = torch.stack(split_float64(normal(padded, 64, seed=6))[: 1 + split])
    product = matmul.reference(a.value().cpu(), halves.double().sum(0) / 8, bias.double())
    tripled = library.tripled(Weight(halves.to(device), 1 / 8))
    hidden = Operand.empty(tokens, 64, split, split, torch.device(device))
    rows.to_operand(a.matrix, tripled, bias.to(device), True, hidden)
    gelu = matmul.reference(a.value().cpu(), halves.double().sum(0) / 8, bias.double(), gelu=True)
    found["gelu"] = float(((hidden.value().cpu() - gelu).abs() / (1 + gelu.abs())).max())
    target = torch.empty(tokens, width, device=device)
    rows.to_residual(a.matrix, tripled, bias.to(device), x.to(device), target)
    summed = x.double() + product[:, :width]
    found["residual"] = float(((target.cpu() - summed).abs() / (1 + summed.abs())).max())
    return found


def wide_error(
    load: Load, config: TransformerConfig, mask: str, precision: str, tokens: int | None, device: str = "cpu"
) -> tuple[float, bool]:
    """The error of the whole op, and whether every row that does not count is zero."""
    weights = loaded(config)
    x, valid = inputs(config), mask_of(mask, config)
    tensors = weights.double().tensors(fused=False)
    expected = cuda_wide.reference(x.double(), valid, tensors, config.num_heads, config.causal)
    packed = pack(weights.float().to(device))
    op = cuda_wide.CudaWide(packed, config.d_model, config.causal, NAMED[precision], load)
    with torch.no_grad():
        y = op(x.to(device), None if valid is None else valid.to(device), tokens).cpu()
    return float((y - expected.detach()).abs().max()), valid is None or not y[~valid].any()
