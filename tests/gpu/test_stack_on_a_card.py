"""The op `stack` on a GPU: the same cases as in the interpreter and larger ones, races, and its times."""

from __future__ import annotations

import functools
import statistics

import pytest
import torch

from harness.baseline import TransformerConfig
from harness.sizes import OFFICIAL
from model.ops import stack
from model.packing import pack
from model.precision import NAMED
from tests.device.stack_cases import Case, loaded, outcome
from tests.gpu.event_times import times_us
from tests.gpu.tune_stack import config_of, inputs_of

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() < (8, 0),
    reason="there is no GPU here for which Triton uses tensor cores",
)
LIMITS = {"safe": 6e-6, "fast": 1e-3, "fp16": 2e-3}
CUTS = [
    None,
    stack.Tuning(block_m=16, block_n=32),
    stack.Tuning(block_m=16, together=4, qkv_chunk=128, ffn_chunk=64, stages=3),
    stack.Tuning(block_m=32, block_n=16, qkv_chunk=32, stages=1),
    stack.Tuning(block_m=64, warps=8, one_launch=False),
    stack.Tuning(block_m=128, warps=8, stages=1),
]


def op_for(config: TransformerConfig, precision: str) -> stack.Stack:
    """The op with weights on the GPU."""
    weights = loaded(config).cuda()
    packed = pack(weights, stack.padded_width(config.d_model), stack.padded_hidden(config.ffn_dim))
    return stack.Stack(packed, config.d_model, config.causal, NAMED[precision])


@pytest.mark.parametrize("precision", LIMITS)
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("causal", [True, False])
def test_every_cut(precision: str, cut: stack.Tuning | None, causal: bool) -> None:
    """Every cut, form and precision at D = 128 with padding that has holes, over several blocks."""
    config = TransformerConfig(5, 200, 128, 4, 128, 4, causal)
    found = outcome(Case(config, "holes", precision), cut, "cuda")
    assert found.max_abs <= LIMITS[precision] and found.finite and found.zeroed


@pytest.mark.parametrize("seq_len", [1, 2, 15, 17, 63, 64, 65, 127, 129, 1000])
@pytest.mark.parametrize("width, heads, hidden", [(128, 16, 128), (96, 4, 100), (24, 3, 200), (128, 1, 64)])
def test_sizes(seq_len: int, width: int, heads: int, hidden: int) -> None:
    """Sequences at the edges of blocks, widths that are no power of two, heads of 8 to 128."""
    config = TransformerConfig(3, seq_len, width, heads, hidden, 3, True)
    found = outcome(Case(config, "prefix"), None, "cuda")
    assert found.max_abs <= LIMITS["safe"] and found.finite and found.zeroed


@pytest.mark.parametrize(
    "batch, seq_len, block_m", [(1, 128, 16), (64, 128, 64), (300, 256, 32), (7, 1024, 64)]
)
def test_nothing_races(batch: int, seq_len: int, block_m: int) -> None:
    """A hundred calls give the same bits, whichever block comes first, and so do two streams at once."""
    op = op_for(TransformerConfig(batch, seq_len, 128, 4, 128, 4, True), "safe")
    x = torch.randn(batch, seq_len, 128, device="cuda")
    cut = stack.Tuning(block_m=block_m)
    first = op(x, None, cut)
    other = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    other.wait_stream(torch.cuda.current_stream())
    for _ in range(100):
        with torch.cuda.stream(other):
            beside = op(x, None, cut)
        assert torch.equal(op(x, None, cut), first)
        other.synchronize()
        assert torch.equal(beside, first)


def test_it_can_be_captured() -> None:
    """A CUDA graph of the op replays to the same bits, before and after calls outside of it."""
    op = op_for(TransformerConfig(4, 128, 128, 4, 128, 4, True), "safe")
    x = torch.randn(4, 128, 128, device="cuda")
    expected = op(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = op(x)
    for _ in range(3):
        captured.zero_()
        graph.replay()
        assert torch.equal(captured, expected) and torch.equal(op(x), expected)


def test_addresses_that_are_not_aligned() -> None:
    """An input that begins in the middle of a line, and a mask that does, are read right."""
    op = op_for(TransformerConfig(3, 33, 96, 4, 96, 2, True), "safe")
    x, mask = torch.randn(4, 33, 96, device="cuda"), torch.rand(4, 33, device="cuda") > 0.3
    expected = op(x, mask)[1:]
    shifted = torch.empty(4 * 33 * 96 + 1, device="cuda")[1:].view(4, 33, 96).copy_(x)
    assert torch.equal(op(shifted, mask)[1:], expected)
    assert torch.equal(op(x[1:], mask[1:]), expected)


def test_more_elements_than_32_bits_count() -> None:
    """With 2.3e9 elements the last sequences come out as they do alone."""
    batch = 140_000
    if torch.cuda.mem_get_info()[0] < 3 * batch * 128 * 128 * 4:
        pytest.skip("they have no room here")
    op = op_for(TransformerConfig(batch, 128, 128, 4, 128, 4, True), "fp16")
    x = torch.randn(batch, 128, 128, device="cuda")
    cut = stack.Tuning()
    assert torch.equal(op(x, None, cut)[-3:], op(x[-3:], None, cut))


@pytest.mark.parametrize("precision", LIMITS)
def test_times_of_the_official_shapes(precision: str) -> None:
    """Print the median time of a call, between two events, of every shape that the op serves."""
    print()
    for shape in OFFICIAL:
        if shape.d_model > stack.MOST_WIDTH:
            continue
        op = op_for(config_of(shape), precision)
        median_us = statistics.median(times_us(functools.partial(op, *inputs_of(shape, shape.batch)), 20))
        print(f"  {shape.key} {precision}: {median_us:.1f} us")
        assert median_us > 0
