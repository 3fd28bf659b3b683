"""The CUDA C++ ops against their references in float64, for a CPU that plays a GPU and for a GPU alike."""

from __future__ import annotations

from typing import NamedTuple

from harness.baseline import TransformerConfig
from model.ops.attention import Heads, reference
from model.ops.cuda_attention import Span, Walk, attention
from model.ops.cuda_driver import Load
from model.ops.operand import Operand
from tests.device.model_cases import mask_of
from tests.device.op_cases import normal, operand_of


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
