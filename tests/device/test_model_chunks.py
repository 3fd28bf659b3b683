"""Chunks of rows: planned from free memory, halved when it runs out, and the same result."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.baseline import TransformerConfig
from model import chunking
from model.chunking import USABLE_SHARE, plan_rows
from tests.device.model_cases import DTYPES, inputs, mask_of, pair, route_of, run

pytestmark = pytest.mark.usefixtures("one_thread")
# Every product of these sizes is a whole number of the tiles that CPU libraries cut a matrix into, so one
# row of the batch goes through the same instructions in any chunk.
EVEN = TransformerConfig(12, 32, 64, 4, 64, 2, True)
ODD = TransformerConfig(7, 17, 24, 3, 40, 2, False)
ROUTES = ("eager", "sdpa")


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["full", "prefix", "holes"])
def test_chunks_do_not_change_a_bit(route: str, dtype: torch.dtype, kind: str) -> None:
    """At sizes where the same kernels run, every chunk size gives the unchunked result to the bit."""
    x, mask = inputs(EVEN, dtype), mask_of(kind, EVEN)
    _, whole = pair(EVEN, dtype, route=route)
    expected = run(whole, x, mask)
    for rows in (1, 2, 3, 5, 6, 11):
        _, model = pair(EVEN, dtype, route=route, chunk=str(rows))
        assert torch.equal(run(model, x, mask), expected), rows
        assert (model.chunk_rows, whole.chunk_rows) == (rows, None)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("rows", [1, 2, 3, 6])
def test_a_chunk_is_the_forward_of_its_rows(route: str, rows: int) -> None:
    """At any size, a chunk's part of the output is to the bit what its rows alone give."""
    x, mask = inputs(ODD), mask_of("holes", ODD)
    assert mask is not None
    _, model = pair(ODD, route=route, chunk=str(rows))
    _, whole = pair(ODD, route=route)
    parts = [run(whole, x[a : a + rows], mask[a : a + rows]) for a in range(0, ODD.batch_size, rows)]
    assert torch.equal(run(model, x, mask), torch.cat(parts))


def test_a_chunk_larger_than_the_batch_is_no_chunk() -> None:
    """A lever beyond the batch runs it in one piece, and says so."""
    _, model = pair(ODD, chunk="100")
    run(model, inputs(ODD))
    assert model.chunk_rows is None


@pytest.mark.parametrize("chunk", ["auto", "1", "4"])
def test_the_chunk_difference_is_measured(chunk: str) -> None:
    """It is 0 where the same kernels run, and leaves what the model reports alone."""
    x, mask = inputs(EVEN), mask_of("prefix", EVEN)
    _, model = pair(EVEN, chunk=chunk)
    run(model, x, mask)
    before = model.route_ran, model.route_note, model.chunk_rows
    with torch.inference_mode():
        assert model.chunk_difference(x, mask) == 0.0
    assert (model.route_ran, model.route_note, model.chunk_rows) == before


def test_a_chunk_difference_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where halves compute something else, the largest absolute difference comes out, be it NaN."""
    _, model = pair(EVEN, chunk="6")
    x = inputs(EVEN)
    run(model, x)
    route = route_of(model)
    real = route.run

    def off_in_halves(part: torch.Tensor, *rest: Any) -> torch.Tensor:
        result = real(part, *rest)
        return result.add_(error) if len(part) == 3 else result

    monkeypatch.setattr(route, "run", off_in_halves)
    error = 0.25
    assert model.chunk_difference(x) == pytest.approx(0.25, rel=1e-5)
    error = float("nan")
    assert model.chunk_difference(x) != model.chunk_difference(x)


@given(
    batch=st.integers(1, 20000),
    row_bytes=st.integers(1, 2**34),
    output_bytes=st.integers(0, 2**36),
    free=st.integers(0, 2**38),
    element_bytes=st.sampled_from([2, 4]),
)
def test_a_plan_fits(batch: int, row_bytes: int, output_bytes: int, free: int, element_bytes: int) -> None:
    """Rows fit beside the output and in 32 bits, or are one; no fewer chunks would fit; no crumbs."""
    rows = plan_rows(batch, row_bytes, output_bytes, free, element_bytes)
    room = min(int(free * USABLE_SHARE) - output_bytes, (2**31 - 1) * element_bytes)
    chunks = -(-batch // rows)
    assert 1 <= rows <= batch
    assert rows == 1 or rows * row_bytes <= room
    assert chunks == 1 or -(-batch // (chunks - 1)) * row_bytes > room
    assert rows - (batch - (chunks - 1) * rows) < chunks


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_free_memory_is_the_system_s_figure() -> None:
    """On a CPU it is MemAvailable: more than nothing, no more than there is."""
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    assert 0 < chunking.free_bytes(torch.device("cpu")) <= int(fields["MemTotal"].split()[0]) * 1024


def test_free_memory_of_a_gpu_counts_what_the_allocator_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's figure, and what torch has reserved and not given out."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 9000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 700)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 300)
    assert chunking.free_bytes(torch.device("cuda", 0)) == 1400


def test_little_memory_means_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for the output and three rows' work, a batch of 12 runs three rows at a time."""
    _, model = pair(EVEN)
    x = inputs(EVEN)
    expected = run(model, x)
    _, tight = pair(EVEN)
    row_bytes = 6 * EVEN.seq_len * EVEN.d_model * 4 + 4 * EVEN.seq_len * EVEN.num_heads
    free = int((3.5 * row_bytes + x.nbytes) / USABLE_SHARE)
    monkeypatch.setattr(chunking, "free_bytes", lambda device: free)
    assert torch.equal(run(tight, x), expected)
    assert tight.chunk_rows == 3
