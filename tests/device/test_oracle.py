"""The oracle against the baseline, wherever both can run."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from harness.baseline import BaselineTransformer, TransformerConfig
from harness.inputs import generate_random_case
from harness.oracle import full_float32, walk

CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures("one_thread")
NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
CUDA = pytest.param("cuda", marks=NO_GPU)
# B, S, D, H, F, L, causal, padding ratio, elements of a block's scores
SHAPES: dict[str, tuple[int, int, int, int, int, int, bool, float, int]] = {
    "a tile": (2, 64, 32, 4, 32, 2, True, 0.0, 4096),
    "no multiple of the block": (3, 101, 24, 3, 40, 2, True, 0.0, 7000),
    "one row a block": (2, 33, 16, 2, 16, 2, True, 0.0, 1),
    "one token": (2, 1, 16, 2, 16, 2, True, 0.0, 1 << 24),
    "one head": (1, 37, 40, 1, 8, 3, True, 0.0, 500),
    "padding": (5, 47, 32, 4, 32, 2, True, 0.7, 5000),
    "no causality": (2, 53, 32, 4, 32, 2, False, 0.0, 3000),
    "neither, and padding": (4, 53, 24, 3, 24, 2, False, 0.9, 3000),
    "long": (1, 700, 64, 2, 64, 2, True, 0.0, 1 << 18),
}


def both(shape: str, dtype: torch.dtype, device: str = "cpu") -> tuple[Tensor, Tensor]:
    """The baseline's output and the oracle's, from the same weights and input."""
    batch, seq_len, width, heads, ffn_dim, layers, causal, padding_ratio, scores = SHAPES[shape]
    config = TransformerConfig(batch, seq_len, width, heads, ffn_dim, layers, causal)
    torch.manual_seed(1234)
    baseline = BaselineTransformer(config).to(device, dtype).eval()
    x, mask = generate_random_case(config, torch.device(device), dtype, 7, padding_ratio, 1.0)
    with torch.inference_mode(), full_float32():
        return baseline(x, mask), walk(baseline.state_dict(), x, mask, heads, causal, scores)


def apart(outputs: tuple[Tensor, Tensor]) -> float:
    """The largest absolute difference."""
    return float((outputs[0].double() - outputs[1].double()).abs().max())


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("shape", SHAPES)
def test_in_float64_it_is_the_baseline(shape: str, device: str) -> None:
    """Both in float64 agree within 1e-10, whatever the blocks, the masks and the sizes."""
    assert apart(both(shape, torch.float64, device)) <= 1e-10


@pytest.mark.parametrize(("device", "bound"), [("cpu", 1e-6), pytest.param("cuda", 5e-6, marks=NO_GPU)])
@pytest.mark.parametrize("shape", SHAPES)
def test_in_float32_it_is_the_baseline(shape: str, device: str, bound: float) -> None:
    """Both in float32 agree within the order of their sums."""
    assert apart(both(shape, torch.float32, device)) <= bound


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "steps"), [(torch.float16, 4), (torch.bfloat16, 4)])
def test_in_half_precision_it_rounds_where_the_baseline_does(
    dtype: torch.dtype, steps: int, shape: str, device: str
) -> None:
    """In float16 and bfloat16 nearly all elements are the same, and none is a few roundings apart."""
    baseline, oracle = both(shape, dtype, device)
    assert oracle.dtype == dtype
    assert apart((baseline, oracle)) <= steps * torch.finfo(dtype).eps
    assert float((baseline != oracle).double().mean()) < 0.1


def test_a_mask_with_holes_means_what_it_means_to_the_baseline() -> None:
    """Keys that do not count are not seen, wherever they stand, and their rows are zero."""
    config = TransformerConfig(3, 40, 32, 4, 32, 2, True)
    torch.manual_seed(3)
    baseline = BaselineTransformer(config).eval()
    mask = torch.rand(3, 40) < 0.6
    mask[:, 0] = torch.tensor([True, False, True])
    x = torch.randn(3, 40, 32)
    with torch.inference_mode():
        expected = baseline(x, mask)
        found = walk(baseline.state_dict(), x, mask, 4, True, scores=3 * 4 * 40 * 7)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    assert (found[~mask] == 0).all()


def test_products_in_full_float32_for_a_while() -> None:
    """The global flags are what they were afterwards, also after an error."""
    torch.set_float32_matmul_precision("high")
    before = torch.backends.cuda.matmul.allow_tf32
    with pytest.raises(KeyError), full_float32():
        assert torch.get_float32_matmul_precision() == "highest"
        raise KeyError
    assert (torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.allow_tf32) == ("high", before)
    torch.set_float32_matmul_precision("highest")
