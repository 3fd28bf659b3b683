"""The gate's memory on a GPU, by torch's own count of what it hands out."""

from __future__ import annotations

import pytest
import torch

from harness.gate import compare_outputs, worst_share

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
SIZES = {"s06": (10_000, 128, 128), "s14": (32, 100_000, 1024)}


@pytest.mark.parametrize("key", SIZES)
def test_comparing_needs_no_more_than_256_mib(key: str) -> None:
    """Beyond two outputs, of up to 12.2 GiB each, it takes 256 MiB at most, and the last element counts."""
    shape = SIZES[key]
    size = 4 * shape[0] * shape[1] * shape[2]
    if torch.cuda.mem_get_info()[0] < 2.1 * size:
        pytest.skip("two such outputs have no room here")
    reference = torch.ones(shape, device="cuda")
    output = torch.ones(shape, device="cuda")
    output[-1, -1, -1] = 2
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result, worst = (
        compare_outputs(reference, output, 0.02, 0.002),
        worst_share(reference, output, 0.02, 0.002),
    )
    grown = torch.cuda.max_memory_allocated() - before
    last = tuple(side - 1 for side in shape)
    assert (result.failed_elements, result.worst_index, worst.index) == (1, last, last)
    assert result.failed_feature_dims == [last[-1]]
    assert grown <= 256 * 2**20
    print(f"\n  {key}: {grown / 2**20:.0f} MiB beyond two outputs of {size / 2**30:.2f} GiB")
