"""The op `stack` against its reference in float64, for the interpreter on a CPU and for a GPU alike."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from harness.baseline import BaselineTransformer, TransformerConfig, copy_model_weights
from model.ops import stack
from model.packing import pack
from model.precision import NAMED
from model.weights import Weights
from tests.device.model_cases import inputs, mask_of


class Outcome(NamedTuple):
    """The largest error, whether all is finite, whether the rows that do not count are zero, the dtype."""

    max_abs: float
    finite: bool
    zeroed: bool
    dtype: torch.dtype


class Case(NamedTuple):
    """A size, the mask's kind (one of MASKS), the named precision, a dtype, scales of input and weights."""

    config: TransformerConfig
    mask: str = "none"
    precision: str = "safe"
    dtype: torch.dtype = torch.float32
    input_scale: float = 1.0
    weight_scale: float = 1.0


def loaded(config: TransformerConfig, scale: float = 1.0) -> Weights:
    """Weights as the contest draws them, norms that are not plain; matrices times `scale`."""
    torch.manual_seed(5)
    baseline, weights = BaselineTransformer(config), Weights(config)
    with torch.no_grad():
        for name, parameter in baseline.named_parameters():
            if "norm" in name:
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
            else:
                parameter.mul_(scale)
    copy_model_weights(baseline, weights, strict=True)
    return weights


def outcome(case: Case, cut: stack.Tuning | None, device: str = "cpu") -> Outcome:
    """Run the case by the op, cut so or as it cuts itself, and compare with the reference in float64."""
    config = case.config
    weights = loaded(config, case.weight_scale).to(device=device, dtype=case.dtype)
    packed = pack(weights, stack.padded_width(config.d_model), stack.padded_hidden(config.ffn_dim))
    op = stack.Stack(packed, config.d_model, config.causal, NAMED[case.precision])
    x = (inputs(config) * case.input_scale).to(device=device, dtype=case.dtype)
    mask = mask_of(case.mask, config)
    mask = None if mask is None else mask.to(device)
    before = x.clone()
    with torch.inference_mode():
        y = op(x, mask, cut)
        tensors = weights.double().tensors(fused=False)
        expected = stack.reference(x.double(), mask, tensors, config.num_heads, config.causal)
    assert torch.equal(x, before)
    return Outcome(
        float((y.double() - expected).abs().max()),
        bool(y.isfinite().all()),
        mask is None or not bool(y[~mask].any()),
        y.dtype,
    )


def outcome_in_parts(case: Case, cut: stack.Tuning | None, scratch_bytes: int) -> Outcome:
    """The same with so little scratch memory that the batch goes part by part."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stack, "SCRATCH_BYTES", scratch_bytes)
        return outcome(case, cut)


def from_baseline(config: TransformerConfig, kind: str) -> float:
    """How far the op's reference is from the contest's baseline, both in float64, where the mask counts."""
    weights = loaded(config).double()
    baseline = BaselineTransformer(config).double()
    baseline.load_state_dict(weights.state_dict())
    x, mask = inputs(config, torch.float64), mask_of(kind, config)
    with torch.inference_mode():
        tensors = weights.tensors(fused=False)
        difference: Tensor = baseline(x, mask) - stack.reference(
            x, mask, tensors, config.num_heads, config.causal
        )
    return float(difference.abs().max())
