"""The CUDA C++ ops compiled for cards that are not here: tensor cores used, few spills, 64 KB a block."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from builder import machinecode
from model.ops import cuda
from model.ops.cuda_attention import MOST_SHARED, defines, shared_bytes, walk_of
from model.ops.cuda_attention_text import TEXT
from model.ops.cuda_rows_text import TEXT as ROWS
from model.ops.cuda_tiles_text import HALVES, WARP

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("nvidia") is None or find_spec("triton") is None,
        reason="NVRTC or Triton's tools are missing",
    ),
]
SPILLED = {(256, False): 16, (256, True): 64}  # bytes of stack of a thread; elsewhere none


@pytest.mark.parametrize(
    "arch, head_dim, split, queries",
    [
        *(("sm_75", head_dim, split, 128) for head_dim in (16, 32, 64, 128, 256) for split in (False, True)),
        ("sm_75", 64, False, 1024),
        ("sm_80", 64, True, 128),
        ("sm_90", 64, True, 128),
    ],
)
def test_attention(
    arch: str, head_dim: int, split: bool, queries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step's products are all on tensor cores: two of 1024 multiplications for 8 keys and 8 of width."""
    walk = walk_of(head_dim, split, queries)
    monkeypatch.setenv(cuda.CACHE, str(tmp_path))
    image = cuda.build(WARP + HALVES + TEXT, arch, defines(head_dim, split, walk))
    found = machinecode.read(image)["attention"]
    shared = shared_bytes(head_dim, split, walk)
    tensor = found.count(r"\bHMMA\b")
    print(
        f"{arch} {head_dim} {split} {walk}: {found.registers} registers, {found.stack} bytes spilled,",
        end=" ",
    )
    print(f"{shared} bytes shared, {tensor} HMMA")
    assert tensor == 2 * (walk.block_n // 8) * (head_dim // 8) * (3 if split else 1)
    print(f"{found.hot_spills} spills in loops")
    assert shared <= MOST_SHARED and found.stack <= SPILLED.get((head_dim, split), 0)


@pytest.mark.parametrize("name", ["layernorm", "finish"])
def test_rows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands between products spills nothing, and leaves a card room for many blocks."""
    monkeypatch.setenv(cuda.CACHE, str(tmp_path))
    found = machinecode.read(cuda.build(WARP + HALVES + ROWS, "sm_75"))[name]
    assert found.stack == 0 and found.registers <= 64
