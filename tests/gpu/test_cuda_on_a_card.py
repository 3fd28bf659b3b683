"""The CUDA C++ ops on a GPU, whichever: the code of a T4, which the driver compiles for newer cards.

pytest tests/gpu/test_cuda_on_a_card.py -s          # any card from capability 7.5; the last ones want 70 GB
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from harness.baseline import BaselineTransformer, TransformerConfig, copy_model_weights
from model import OptimizedTransformer, chunking
from model.ops.cuda_attention import Walk
from model.ops.cuda_driver import loader
from model.weights import Weights
from tests.device.cuda_cases import Attended, attention_error, rows_errors, wide_error
from tests.device.model_cases import candidate

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() < (7, 5),
    reason="there is no GPU here with the instructions of a T4",
)
LIMITS = {"safe": 6e-6, "fast": 1e-3, "fp16": 2e-3}
T4_BYTES = int(15.6e9)
ELSEWHERE = 6 * 10**8  # CUDA's own on a T4, which the allocator does not count


@pytest.mark.parametrize("head_dim", [16, 32, 64, 128, 256])
@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("mask", ["none", "holes", "one row empty"])
def test_attention(head_dim: int, split: bool, causal: bool, mask: str) -> None:
    """Every width of heads over a length that fits no block, over padding."""
    error = attention_error(
        loader(torch.device("cuda")), Attended(2, 333, 2, head_dim, causal, mask), split, device="cuda"
    )
    assert error <= (4e-6 if split else 4e-3)


@pytest.mark.parametrize("case", [Attended(1, 5000, 1, 64), Attended(1, 3000, 1, 32, first=1111)])
@pytest.mark.parametrize("walk", [None, Walk(64, 64, True, False), Walk(64, 32, False, False)])
def test_long_attention(case: Attended, walk: Walk | None) -> None:
    """Thousands of keys, where the running sum's error would show, all queries or the later ones."""
    assert attention_error(loader(torch.device("cuda")), case, True, walk, True, "cuda") <= 4e-6


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_rows_between_products(dtype: torch.dtype, split: bool) -> None:
    """LayerNorm, and what follows a product, at odd widths, in every type."""
    found = rows_errors(loader(torch.device("cuda")), dtype, split, "cuda")
    assert found.pop("padding") == 0
    assert found.pop("final") <= {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]
    assert max(found["operand"], found["gelu"]) <= (4e-6 if split else 2e-3)
    assert found["residual"] <= 2e-5


@pytest.mark.parametrize("precision", LIMITS)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("config, tokens", [((3, 200, 320, 5, 400, 3), None), ((1, 700, 96, 3, 80, 2), 256)])
def test_the_whole(precision: str, causal: bool, config: tuple[int, ...], tokens: int | None) -> None:
    """The transformer over padding with holes, whole sequences or in parts."""
    batch, seq_len, width, heads, hidden, layers = config
    case = TransformerConfig(batch, seq_len, width, heads, hidden, layers, causal)
    error, zeroed = wide_error(loader(torch.device("cuda")), case, "holes", precision, tokens, "cuda")
    assert error <= LIMITS[precision] and zeroed


@pytest.mark.parametrize("graph", ["on", "off"])
def test_the_same_bits_again(graph: str) -> None:
    """A hundred calls give the same bits, and after the first none makes the host wait for the device."""
    config = TransformerConfig(4, 200, 128, 4, 128, 2, True)
    model = candidate(config, route="cuda", graph=graph).cuda()
    copy_model_weights(BaselineTransformer(config).cuda(), model)
    x, mask = torch.randn(4, 200, 128, device="cuda"), torch.rand(4, 200, device="cuda") > 0.3
    with torch.inference_mode():
        first = model(x, mask)
        assert (model.route_ran, model.route_note) == ("cuda", "")
        torch.cuda.set_sync_debug_mode("error")
        try:
            again = [model(x, mask) for _ in range(100)]
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert all(torch.equal(first, each) for each in again)


@pytest.fixture
def card_of_a_t4_s_memory() -> Iterator[int]:
    """The allocator gives out no more than a T4 has; the bytes."""
    total = torch.cuda.get_device_properties(0).total_memory
    if total < T4_BYTES - ELSEWHERE:
        pytest.skip("this card has less memory than a T4")
    room = T4_BYTES - ELSEWHERE
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(room / total)
    yield room
    torch.cuda.set_per_process_memory_fraction(1.0)


def shape_14(precision: str) -> tuple[OptimizedTransformer, torch.Tensor, torch.Tensor]:
    """The model, its input [32,100000,1024] in float16, and a mask of all tokens."""
    config = TransformerConfig(32, 100_000, 1024, 16, 1024, 2, True)
    model = candidate(config, route="cuda", precision=precision).cuda().half()
    copy_model_weights(BaselineTransformer(config), model)
    x = torch.empty(32, 100_000, 1024, dtype=torch.float16, device="cuda")
    for row in x:
        row.normal_()
    return model, x, torch.ones(32, 100_000, dtype=torch.bool, device="cuda")


@pytest.mark.parametrize("precision", ["fp16", "safe"])
@pytest.mark.parametrize("told", [1, 3])
def test_the_longest_shape_in_a_t4_s_memory(
    precision: str, told: int, card_of_a_t4_s_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it, planned right or told of too much memory: it ends, within the cap, with right rows."""

    def free(device: torch.device) -> int:
        return told * (card_of_a_t4_s_memory - torch.cuda.memory_allocated(device))

    monkeypatch.setattr(chunking, "free_bytes", free)
    model, x, mask = shape_14(precision)
    planned, failures = model._plan(x, mask).piece, torch.cuda.memory_stats()["num_ooms"]
    torch.cuda.reset_peak_memory_stats()
    with torch.inference_mode():
        y = model(x, mask)
        kept = y[-1, -100:].float()
        assert torch.cuda.max_memory_allocated() <= card_of_a_t4_s_memory
        failures = torch.cuda.memory_stats()["num_ooms"] - failures
        assert told > 1 or (planned.tokens, 0) == (model.chunk_tokens, failures)
        del y
        alone = model(x[-1:], mask[-1:])
    # The last row of the batch, and the same row by itself, where everything may fit at once.
    assert float((alone[0, -100:].float() - kept).abs().max()) <= 4e-3
    assert isinstance(model, Weights) and model.route_ran == "cuda"
