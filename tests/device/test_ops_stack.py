"""The op `stack` in Triton's interpreter: every size, mask, cut and precision against its reference."""

from __future__ import annotations

import pytest
import torch

from harness.baseline import TransformerConfig
from model.ops.stack import Tuning, cut
from tests.device.interpreter import Interpreter, interpreter
from tests.device.stack_cases import Case, from_baseline, outcome, outcome_in_parts

__all__ = ["interpreter"]
SMALL = Tuning(block_m=16, block_n=16, qkv_chunk=64, ffn_chunk=64)
LAUNCHES = SMALL._replace(one_launch=False)
LIMITS = {"safe": 2e-6, "fast": 1e-3, "fp16": 2e-3}


def check(interpreter: Interpreter, case: Case, cut: Tuning | None, limit: float) -> None:
    """The error is within the limit, nothing is infinite or nan, padding is zero, the dtype is x's."""
    found = interpreter(outcome, case, cut)
    assert found.max_abs <= limit and found.finite and found.zeroed and found.dtype == case.dtype


@pytest.mark.parametrize("seq_len", [1, 15, 16, 17])
@pytest.mark.parametrize("causal", [True, False])
def test_block_edges(interpreter: Interpreter, seq_len: int, causal: bool) -> None:
    """Sequences of one token, and one less, as many and one more than a block; one launch a layer."""
    config = TransformerConfig(2, seq_len, 16, 2, 16, 2, causal)
    check(interpreter, Case(config), LAUNCHES, LIMITS["safe"])


@pytest.mark.parametrize("mask", ["full", "prefix", "holes", "one row empty", "all empty"])
@pytest.mark.parametrize("causal", [True, False])
def test_masks(interpreter: Interpreter, mask: str, causal: bool) -> None:
    """Padding of every kind, over two blocks: it is zero, not nan, and no row that counts sees it."""
    config = TransformerConfig(3, 20, 16, 1, 16, 2, causal)
    check(interpreter, Case(config, mask), LAUNCHES, LIMITS["safe"])


@pytest.mark.parametrize("precision", LIMITS)
def test_precisions(interpreter: Interpreter, precision: str) -> None:
    """Each named precision keeps to its class of error, and no more than `safe` is as exact as it."""
    case = Case(TransformerConfig(1, 16, 24, 3, 40, 1, True), "none", precision)
    found = interpreter(outcome, case, SMALL)
    assert found.max_abs <= LIMITS[precision]
    assert (found.max_abs <= LIMITS["safe"]) == (precision == "safe")


@pytest.mark.parametrize("heads, together", [(2, 2), (3, 4), (4, 2)])
@pytest.mark.parametrize("causal", [True, False])
def test_heads_together(interpreter: Interpreter, heads: int, together: int, causal: bool) -> None:
    """Several heads at once, as many as divide their number, give the same, with padding that has holes."""
    case = Case(TransformerConfig(2, 20, 8 * heads, heads, 16, 1, causal), "holes")
    check(interpreter, case, LAUNCHES._replace(together=together), LIMITS["safe"])


@pytest.mark.parametrize("block_n, mask", [(16, "prefix"), (16, "full"), (32, "holes")])
def test_all_layers_in_one_launch(interpreter: Interpreter, block_n: int, mask: str) -> None:
    """Blocks that read each other's keys as they come give the same, for key steps beyond a block, too."""
    config = TransformerConfig(2, 35, 16, 2, 32, 3, True)
    check(interpreter, Case(config, mask), SMALL._replace(block_n=block_n), LIMITS["safe"])


@pytest.mark.parametrize(
    "width, heads, hidden, layers",
    [(8, 1, 8, 1), (24, 3, 100, 1), (96, 4, 96, 1), (64, 8, 16, 1), (16, 2, 16, 5)],
)
def test_odd_widths(interpreter: Interpreter, width: int, heads: int, hidden: int, layers: int) -> None:
    """Widths that are no power of two, odd heads, heads of 8, FFNs narrower and wider than D, five layers."""
    case = Case(TransformerConfig(1, 16, width, heads, hidden, layers, True))
    check(interpreter, case, SMALL, LIMITS["safe"])


@pytest.mark.parametrize("cut", [SMALL, LAUNCHES])
def test_little_scratch(interpreter: Interpreter, cut: Tuning) -> None:
    """With scratch for two sequences a batch of five, and its mask, goes in three parts."""
    case = Case(TransformerConfig(5, 18, 16, 2, 16, 2, True), "holes")
    found = interpreter(outcome_in_parts, case, cut, 2 * 18 * 2 * 6 * 32 * 2)
    assert found.max_abs <= LIMITS["safe"] and found.zeroed


@pytest.mark.parametrize("dtype, limit", [(torch.float16, 4e-3), (torch.bfloat16, 3e-2)])
def test_half_inputs(interpreter: Interpreter, dtype: torch.dtype, limit: float) -> None:
    """Half types in and out: only the result's own rounding is left."""
    case = Case(TransformerConfig(1, 16, 16, 2, 16, 2, True), "prefix", "safe", dtype)
    check(interpreter, case, SMALL, limit)


@pytest.mark.parametrize(
    "input_scale, weight_scale", [(0.0, 1.0), (1e-6, 1e-3), (1e4, 1e-3), (1.0, 10.0), (1e15, 10.0)]
)
def test_extreme_values(interpreter: Interpreter, input_scale: float, weight_scale: float) -> None:
    """Inputs of zero, tiny and huge, weights tiny and large: finite, and as near as float32 itself comes."""
    case = Case(TransformerConfig(1, 9, 16, 2, 16, 1, True), "none", "safe", torch.float32)
    case = case._replace(input_scale=input_scale, weight_scale=weight_scale)
    check(interpreter, case, SMALL, 2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("seq_len, precision", [(127, "fp16"), (128, "safe"), (129, "fast")])
def test_the_width_of_the_contest(interpreter: Interpreter, seq_len: int, precision: str) -> None:
    """D = 128 with four heads over four layers, at the sequence length of most shapes and its neighbours."""
    case = Case(TransformerConfig(1, seq_len, 128, 4, 128, 4, True), "none", precision)
    check(interpreter, case, None, LIMITS[precision])


def test_cuts_keep_most_processors_at_work() -> None:
    """On 132 processors few sequences are cut fine, many coarsely; too many blocks wait by launches."""
    sizes = {(1, 128): 16, (4, 128): 16, (16, 128): 16, (40, 128): 32, (64, 128): 64, (10_000, 128): 64}
    assert {size: cut(*size, 132).block_m for size in sizes} == sizes
    assert cut(64, 128, 132).one_launch and not cut(1, 100_000, 132).one_launch


@pytest.mark.parametrize("mask", ["none", "prefix", "holes"])
@pytest.mark.parametrize("causal", [True, False])
def test_the_reference_is_the_baseline(mask: str, causal: bool) -> None:
    """The op's reference is the contest's model, whose softmax is in float32 whatever the dtype."""
    assert from_baseline(TransformerConfig(2, 20, 24, 3, 40, 2, causal), mask) <= 1e-6
