"""The ops of the wide path in Triton's interpreter: edges, padding, masks and values against float64."""

from __future__ import annotations

import pytest

from harness.baseline import TransformerConfig
from model.ops.attention import Walk
from model.ops.matmul import Tiles
from model.ops.wide import Cut
from tests.device.interpreter import Interpreter, interpreter
from tests.device.op_cases import (
    Attended,
    Norm,
    Product,
    attention_error,
    layernorm_errors,
    matmul_errors,
    wide_error,
)

__all__ = ["interpreter"]
SPLIT, HALF = 2e-6, 2e-3  # what is left of values of magnitude 1 to 4
SMALL = Tiles(16, 16, 16)
LARGE = Tiles(64, 64, 32)  # few programs: the interpreter takes its time for each
STEP = Walk(16, 16)


@pytest.mark.parametrize("tripled", [False, True])
@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize(
    "case",
    [Norm(1, 1, 16), Norm(5, 24, 32), Norm(3, 1000, 1008), Norm(2, 128, 128, 1e15), Norm(2, 64, 64, 1, 9)],
)
def test_layernorm(interpreter: Interpreter, case: Norm, is_split: bool, tripled: bool) -> None:
    """Any width, padded or not, huge values, an offset: as exact as the operand's halves are."""
    operand, final = interpreter(layernorm_errors, case, is_split, tripled)
    assert operand <= (SPLIT if is_split else HALF)
    assert final <= 4 * SPLIT


@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize(
    "tiles",
    [
        SMALL,
        SMALL._replace(ordered=True),
        SMALL._replace(persistent=True, ordered=True, group_m=1),
        SMALL._replace(descriptors=True),
        SMALL._replace(descriptors=True, ordered=True, persistent=True),
    ],
    ids=lambda tiles: " ".join(name for name in tiles._fields if getattr(tiles, name) is True) or "plain",
)
def test_matmul_cuts(interpreter: Interpreter, tiles: Tiles, is_split: bool) -> None:
    """However it is cut, a product whose every side is odd in tiles is right, in both of its forms."""
    hidden, summed = interpreter(matmul_errors, Product(17, 32, 48, 11, 35), is_split, tiles)
    assert hidden <= (SPLIT if is_split else HALF)
    assert summed <= SPLIT


@pytest.mark.parametrize("by", ["triton", "cublas"])
@pytest.mark.parametrize(
    "case", [Product(1, 16, 16, 16, 1), Product(9, 40, 16, 0, 16), Product(16, 16, 32, 32, 32)]
)
def test_matmul_sizes(interpreter: Interpreter, case: Product, by: str) -> None:
    """One row, a depth that is no whole number of steps, whole tiles; and the same by one library product."""
    hidden, summed = interpreter(matmul_errors, case, True, SMALL, by)
    assert max(hidden, summed) <= SPLIT


@pytest.mark.parametrize("seq_len", [1, 16, 17, 33])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("is_split", [False, True])
def test_attention_lengths(interpreter: Interpreter, seq_len: int, causal: bool, is_split: bool) -> None:
    """A token, a whole block, one beyond, and queries in several blocks."""
    error = interpreter(attention_error, Attended(1, seq_len, 2, 16, causal), is_split, STEP)
    assert error <= (SPLIT if is_split else HALF)


@pytest.mark.parametrize("mask", ["full", "prefix", "holes", "one row empty", "all empty"])
@pytest.mark.parametrize("causal", [True, False])
def test_attention_masks(interpreter: Interpreter, mask: str, causal: bool) -> None:
    """Keys that do not count are not seen; a query that sees none gets zero."""
    assert interpreter(attention_error, Attended(2, 20, 1, 16, causal, mask), True, STEP) <= SPLIT


@pytest.mark.parametrize("walk", [Walk(16, 32), Walk(32, 16), Walk(64, 16), None])
def test_attention_cuts(interpreter: Interpreter, walk: Walk | None) -> None:
    """Steps longer and shorter than a block of queries, and the cut where none was measured."""
    assert interpreter(attention_error, Attended(1, 70, 1, 32, True, "holes"), True, walk) <= SPLIT


@pytest.mark.parametrize("scale", [0.0, 1e-4, 6.0])
def test_attention_extremes(interpreter: Interpreter, scale: float) -> None:
    """Scores that are all alike, and such that one key takes all: both stay exact."""
    assert interpreter(attention_error, Attended(1, 33, 1, 16, True, "none", scale), True, STEP) <= 4e-5


@pytest.mark.parametrize("cut", [Cut("triton", "triton", LARGE, STEP), Cut("cublas"), Cut("cublas", "torch")])
@pytest.mark.parametrize("precision, limit", [("safe", 2e-6), ("fast", 1e-3), ("fp16", 2e-3)])
def test_the_whole(interpreter: Interpreter, cut: Cut, precision: str, limit: float) -> None:
    """The transformer, however made, keeps to its precision's class of error, over a mask with holes."""
    config = TransformerConfig(2, 17, 24, 3, 40, 2, True)
    error, zeroed = interpreter(wide_error, config, "holes", precision, cut)
    assert error <= limit and zeroed


def test_the_whole_without_causality(interpreter: Interpreter) -> None:
    """Where every key is seen, padding is masked in the kernel and rows of nothing else are zero."""
    config = TransformerConfig(2, 9, 16, 1, 16, 1, False)
    error, zeroed = interpreter(wide_error, config, "one row empty", "safe", Cut(tiles=SMALL, walk=STEP))
    assert error <= 2e-6 and zeroed
