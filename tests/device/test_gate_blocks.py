"""The gate in blocks: the same figures as in one piece, in little memory."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from harness import gate
from harness.blocks import blocks
from harness.gate import compare_outputs, worst_share

PROJECT = Path(__file__).parents[2]
INF, NAN = math.inf, math.nan
RTOL, ATOL = 0.02, 0.002
SPECIAL = (0.0, 0.002, 1.0, 50.0, 1e-9, -3.0, 3e38, INF, -INF, NAN)


def in_one_piece(r: Tensor, o: Tensor) -> dict[str, Any]:
    """Every figure by the rule, over all elements at once."""
    r, o = r.float(), o.float()
    finite = r.isfinite() & o.isfinite()
    error = torch.where(finite, (o - r).abs(), torch.tensor(INF))
    failed = ~(((error <= ATOL) | (error <= RTOL * r.abs())) & (error < INF))
    relative = torch.where(error < INF, error / r.abs().clamp(min=1e-12), torch.tensor(INF))
    share = torch.where(error < INF, error / (RTOL * r.abs()).clamp(min=ATOL), torch.tensor(INF))
    mean = error.double().mean().float()
    return {
        "passed": not bool(failed.any()),
        "total_elements": r.numel(),
        "failed_elements": int(failed.sum()),
        "max_abs_error": float(error.max()),
        "max_relative_error": float(relative.max()),
        "mean_abs_error": float(mean),
        "failed_feature_dims": sorted({index[-1] for index in failed.nonzero().tolist()}),
        "worst_index": tuple(int(i) for i in torch.unravel_index(error.argmax(), error.shape)),
        "share": float(share.max()),
        "share_index": tuple(int(i) for i in torch.unravel_index(share.argmax(), share.shape)),
    }


def in_blocks(r: Tensor, o: Tensor) -> dict[str, Any]:
    """The same figures from the gate."""
    result, worst = compare_outputs(r, o, RTOL, ATOL), worst_share(r, o, RTOL, ATOL)
    values = {name: value for name, value in vars(result).items() if not name.endswith("_at_worst")}
    assert repr(result.reference_at_worst) == repr(float(r[result.worst_index]))
    assert repr(worst.optimized) == repr(float(o[worst.index]))
    return {**values, "share": worst.share, "share_index": worst.index}


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """A reference and an output of it, near and far, with everything in them that a float can be."""
    shape = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    scale = 10.0 ** draw(st.integers(-6, 3))
    r = torch.randn(shape, generator=generator)
    o = r + scale * torch.randn(shape, generator=generator)
    for tensor in (r, o):
        for value in draw(st.lists(st.sampled_from(SPECIAL), max_size=2)):
            tensor.view(-1)[draw(st.integers(0, tensor.numel() - 1))] = value
    if draw(st.booleans()):
        o = o.half()
    if draw(st.booleans()) and len(shape) > 1:
        r, o = r.transpose(0, 1), o.transpose(0, 1)
    return r, o


@pytest.mark.filterwarnings("ignore:the output is")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pair=pairs(), most=st.integers(1, 40))
def test_blocks_change_no_bit(
    pair: tuple[Tensor, Tensor], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the size of a block, every figure is what the rule gives over all elements at once."""
    monkeypatch.setattr(gate, "BLOCK_ELEMENTS", most)
    assert in_blocks(*pair) == in_one_piece(*pair)


@given(st.lists(st.integers(1, 7), min_size=1, max_size=4), st.integers(1, 60))
def test_blocks_cut_in_order_and_lose_nothing(shape: list[int], most: int) -> None:
    """Every element is in one block, in memory's order; none is larger than asked but for one long row."""
    whole = torch.arange(math.prod(shape)).view(shape)
    cut = [whole[block] for block in blocks(shape, most)]
    assert torch.equal(torch.cat([part.reshape(-1) for part in cut]), whole.view(-1))
    assert all(part.numel() <= max(most, shape[-1]) for part in cut)
    assert all(part.dim() == len(shape) for part in cut)


GROWTH = """
import torch
from harness import gate, observing
cpu = torch.device("cpu")
reference = torch.ones(1000, 128, 128)
output = torch.ones(1000, 128, 128).add_(1e-4)
gate.compare_outputs(reference[:9], output[:9], 0.02, 0.002)
observing.reset_peak_memory(cpu)
before = observing.peak_memory_mib(cpu)
assert gate.compare_outputs(reference, output, 0.02, 0.002).passed
gate.worst_share(reference, output, 0.02, 0.002)
print(observing.peak_memory_mib(cpu) - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux forgets a peak")
def test_comparing_needs_little_memory() -> None:
    """Two outputs of 62 MiB are compared within 180 MiB more, where one piece would take 300 MiB."""
    done = subprocess.run(
        [sys.executable, "-c", GROWTH], cwd=PROJECT, capture_output=True, text=True, timeout=120, check=True
    )
    assert float(done.stdout) < 180
