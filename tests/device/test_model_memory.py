"""What the routes allocate, and what happens when memory runs out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.baseline import TransformerConfig
from model.chunking import is_out_of_memory
from tests.device.model_cases import allocated, inputs, mask_of, pair, run

# Attention on a CPU has a scratch of half a MiB a thread, whatever the size.
pytestmark = pytest.mark.usefixtures("one_thread")
ROUTES = ("eager", "sdpa")
PROJECT = Path(__file__).parents[2]
SHAPES = [TransformerConfig(8, 32, 64, 4, ffn_dim, 2, True) for ffn_dim in (64, 256)]
SHAPES += [TransformerConfig(8, 256, 32, 2, 32, 1, causal) for causal in (False, True)]


def largest(config: TransformerConfig, route: str, kind: str) -> int:
    """Bytes of the largest single allocation of a forward."""
    _, model = pair(config, route=route)
    x, mask = inputs(config), mask_of(kind, config)
    return allocated(lambda: run(model, x, mask)).largest


@pytest.mark.parametrize("kind", ["full", "prefix", "holes"])
@pytest.mark.parametrize("causal", [False, True])
def test_sdpa_makes_no_square_tensor(kind: str, causal: bool) -> None:
    """With any mask the sdpa route allocates no S x S tensor, nor a quarter of one, be it of booleans."""
    config = TransformerConfig(1, 2048, 8, 1, 8, 1, causal)
    assert largest(config, "sdpa", kind) < 2048**2 // 4


def test_a_square_tensor_would_be_seen() -> None:
    """The eager route's float32 scores show in the same measure."""
    assert largest(TransformerConfig(1, 512, 8, 1, 8, 1, True), "eager", "full") == 512**2 * 4


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("kind", ["full", "holes"])
@pytest.mark.parametrize("config", SHAPES, ids=str)
def test_the_estimate_is_near_what_is_allocated(route: str, kind: str, config: TransformerConfig) -> None:
    """What a route takes at its worst moment is at most its estimate and at least 0.6 of it."""
    x, mask = inputs(config), mask_of(kind, config)
    _, whole = pair(config, route=route)
    _, chunked = pair(config, route=route, chunk="4")
    row_bytes = whole._plan(x, mask).route.bytes_per_row(x, mask, whole, whole._levers)
    for model in (whole, chunked):
        run(model, x, mask)
    assert 0.6 * 8 * row_bytes <= allocated(lambda: run(whole, x, mask)).peak <= 8 * row_bytes
    assert allocated(lambda: run(chunked, x, mask)).peak <= x.nbytes + 4 * row_bytes


def test_a_residual_in_place_takes_no_more_than_a_new_one() -> None:
    """The lever changes memory and not one bit of the result."""
    config = SHAPES[0]
    x = inputs(config)
    models = [pair(config, residual=value)[1] for value in ("inplace", "new")]
    in_place, new = (run(model, x) for model in models)
    assert torch.equal(in_place, new)


class SmallMemory(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Raises torch's own error for running out of memory when an operation's result has too many elements."""

    def __init__(self, most: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.most, self.refused = most, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation; an empty tensor, such as the output, may be of any size."""
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.numel() > self.most and "empty" not in str(func):
            self.refused += 1
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return result


@pytest.mark.parametrize("route", ROUTES)
def test_out_of_memory_halves_the_chunk_until_it_fits(route: str) -> None:
    """A batch of 12 where 4 rows fit ends at 3 rows with the right result, and starts there next time."""
    config = TransformerConfig(12, 32, 64, 4, 64, 2, True)
    _, whole = pair(config, route=route)
    _, model = pair(config, route=route)
    x = inputs(config)
    widest = 4 * 32 * 32 if route == "eager" else 32 * 3 * 64
    most = max(4 * widest, x.numel() // 3)
    expected = run(whole, x)
    with SmallMemory(most) as memory:
        assert torch.equal(run(model, x), expected)
        assert (model.chunk_rows, memory.refused) == (3, 2)
        assert torch.equal(run(model, x), expected)
        assert (model.chunk_rows, memory.refused) == (3, 2)


def test_one_row_that_does_not_fit_is_the_end() -> None:
    """When a single row fails too, the error of running out of memory comes out."""
    config = TransformerConfig(12, 32, 64, 4, 64, 2, True)
    _, model = pair(config)
    x = inputs(config)
    with SmallMemory(10) as memory, pytest.raises(torch.cuda.OutOfMemoryError):
        run(model, x)
    assert memory.refused == 5  # 12, 6, 3, 2, 1


REAL_LIMIT = """
import resource, torch
from tests.device.model_cases import inputs, pair, run
from harness.baseline import TransformerConfig
torch.set_num_threads(1)
config = TransformerConfig(8, 768, 8, 4, 8, 1, True)
_, one_by_one = pair(config, route="eager", chunk="1")
_, model = pair(config, route="eager", chunk="8")
x = inputs(config)
expected = run(one_by_one, x)
pages = int(open("/proc/self/statm").read().split()[0])
room = 96 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + room,) * 2)
print((run(model, x) - expected).abs().max().item() < 1e-5, model.chunk_rows)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and needs RLIMIT_AS to be kept")
def test_a_real_memory_limit_halves_the_chunk() -> None:
    """Where the system grants 96 MiB more, eight rows with 19 MB of scores each run in smaller chunks."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", REAL_LIMIT],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    right, rows = done.stdout.split()
    assert (right, rows in {"1", "2", "4"}) == ("True", True)


def errors() -> dict[str, tuple[Callable[[], object], bool]]:
    """Ways to fail, and whether memory ran out in them."""
    return {
        "cpu allocator": (lambda: torch.empty(2**60), True),
        "python": (lambda: bytearray(2**62), True),
        "wrong shapes": (lambda: torch.zeros(2) + torch.zeros(3), False),
        "no such thing": ([].pop, False),
    }


@pytest.mark.parametrize("name", errors())
def test_running_out_of_memory_is_told_from_other_errors(name: str) -> None:
    """The allocators' own errors are known, and nothing else is taken for one."""
    fail, expected = errors()[name]
    with pytest.raises((RuntimeError, MemoryError, IndexError)) as caught:
        fail()
    assert is_out_of_memory(caught.value) is expected


@pytest.mark.parametrize(
    "error",
    [
        torch.cuda.OutOfMemoryError("Tried to allocate"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
)
def test_a_gpu_s_out_of_memory_is_known(error: RuntimeError) -> None:
    """Torch's own class and the two texts that CUDA's libraries use instead."""
    assert is_out_of_memory(error)


def test_another_error_is_not_retried() -> None:
    """A failure that more memory would not mend comes out as it is."""
    config = SHAPES[0]
    _, model = pair(config)
    with pytest.raises(RuntimeError, match="shape"):
        run(model, torch.zeros(8, 32, config.d_model + 1))
