"""The CUDA C++ ops run lane by lane on a CPU: fragments, addresses, edges, masks and values."""

from __future__ import annotations

import pytest
import torch

from harness.baseline import TransformerConfig
from model.ops.attention import Heads
from model.ops.cuda_attention import Span, attention
from model.ops.operand import Operand
from tests.device.cuda_cases import Attended, attention_error, rows_errors, wide_error
from tests.device.cuda_on_cpu import COMPILER, OnCpu

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler here")
SPLIT, HALF = 2e-6, 2e-3
SLOW = pytest.mark.slow  # to compile


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> OnCpu:
    """One folder of compiled texts for all tests."""
    return OnCpu(tmp_path_factory.mktemp("cuda"))


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("head_dim", [16, *(pytest.param(each, marks=SLOW) for each in (32, 64, 128, 256))])
def test_attention_of_every_width(load: OnCpu, head_dim: int, split: bool) -> None:
    """Heads of every width, over more keys than a step, the last step and block not full."""
    error = attention_error(load, Attended(1, 70, 2, head_dim, scale=4 / head_dim**0.5), split)
    assert error <= (SPLIT if split else HALF)


@pytest.mark.parametrize("mask", ["none", "prefix", "holes", "one row empty", "all empty"])
@pytest.mark.parametrize("causal", [True, False])
def test_attention_masks(load: OnCpu, mask: str, causal: bool) -> None:
    """Keys that do not count are not seen; a query that sees none gets zero; halves are written thrice."""
    case = Attended(2, 70, 1, 16, causal, mask)
    assert attention_error(load, case, True, tripled=True) <= SPLIT


@pytest.mark.parametrize(
    "seq_len, first", [(1, 0), (8, 3), (64, 0), (65, 0), (129, 0), (129, 64), (150, 101)]
)
@pytest.mark.parametrize("causal", [True, False])
def test_attention_lengths_and_parts(load: OnCpu, seq_len: int, first: int, causal: bool) -> None:
    """A token, whole blocks, one beyond; and queries that are the later part of a sequence."""
    assert attention_error(load, Attended(1, seq_len, 1, 16, causal, "none", 1.0, first), True) <= SPLIT


@pytest.mark.parametrize("scale", [0.0, 1e-4, 6.0])
def test_attention_extremes(load: OnCpu, scale: float) -> None:
    """Scores that are all alike, and such that one key takes all: both stay exact."""
    assert attention_error(load, Attended(1, 33, 1, 16, True, "none", scale), True) <= 4e-5


def test_what_the_op_does_not_take(load: OnCpu) -> None:
    """Columns that are not as many heads of such a width are refused before anything is built."""
    memory = torch.zeros(1, 4, 96, dtype=torch.float16)
    out = Operand.empty(4, 32, False, False, memory.device)
    q, k, v = (memory[..., start : start + 32] for start in (0, 32, 64))
    with pytest.raises(ValueError, match="are not"):
        attention(load, q, k, v, Heads(3, 16), Span(4, 4), None, True, out)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_rows_between_products(load: OnCpu, dtype: torch.dtype, split: bool) -> None:
    """LayerNorm, and what follows a product, at odd widths, in every type, halves or not."""
    found = rows_errors(load, dtype, split)
    assert found.pop("padding") == 0
    assert found.pop("final") <= {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]
    assert max(found["operand"], found["gelu"]) <= (SPLIT if split else HALF)
    assert found["residual"] <= SPLIT


@pytest.mark.parametrize("causal, mask", [(True, "holes"), (False, "prefix")])
@pytest.mark.parametrize(
    "precision, limit", [("safe", 2e-6), pytest.param("fast", 1e-3, marks=SLOW), ("fp16", 2e-3)]
)
def test_the_whole(load: OnCpu, precision: str, limit: float, causal: bool, mask: str) -> None:
    """The transformer keeps to its precision's class of error, over padding."""
    config = TransformerConfig(2, 17, 24, 3, 40, 2, causal)
    error, zeroed = wide_error(load, config, mask, precision, None)
    assert error <= limit and zeroed


@pytest.mark.parametrize("tokens", [pytest.param(64, marks=SLOW), 100, pytest.param(149, marks=SLOW), 150])
@pytest.mark.parametrize("causal", [True, False])
def test_a_sequence_in_parts(load: OnCpu, tokens: int, causal: bool) -> None:
    """A sequence that runs in parts, even or not, causal or not, is the same sequence."""
    error, zeroed = wide_error(load, TransformerConfig(1, 150, 16, 1, 16, 2, causal), "holes", "safe", tokens)
    assert error <= 2e-6 and zeroed
