"""The ops of the wide path compiled for GPUs that are not here: they fit, hardly spill, use tensor cores."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from builder.inspecting import Found
from model.ops.attention import Walk
from model.ops.matmul import Tiles
from tests.device.triton_compile import compiled

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed here"),
]
INTEGERS = ("tokens", "a_stride", "a_lo", "out_stride", "out_lo", "seq_len", "blocks", "lo_offset")
ATTENTION = {"qkv_ptr": "*fp16", "out_ptr": "*fp16", "valid_ptr": "*i1", **dict.fromkeys(INTEGERS, "i32")}


def product(capability: int, tiles: Tiles, is_split: bool, gelu: bool, folder: Path) -> Found:
    """One product of shape 8, 1024 by 1024, with GELU to halves or onto the residual."""
    from model.ops.matmul_kernel import matmul_kernel

    a, b = "*fp16", "*fp16"
    if tiles.descriptors:
        a = f"tensordesc<fp16[{tiles.block_m},{tiles.block_k}]>"
        b = f"tensordesc<fp16[{tiles.block_k},{tiles.block_n}]>"
    out = "*fp16" if gelu else "*fp32"
    types = {"a": a, "b": b, "bias_ptr": "*fp32", "out_ptr": out, "residual_ptr": out, "unscale": "fp32"}
    constants = {
        "K": 1024,
        "N": 1024,
        "STORED": 1024,
        "BIASED": 1024,
        "SPLIT": is_split,
        "GELU": gelu,
        "RESIDUAL": not gelu,
        "OUT_SPLIT": gelu and is_split,
        "OUT_TRIPLED": False,
        **{name.upper(): value for name, value in tiles._asdict().items() if name != "warps"},
        "ORDERED": tiles.ordered and is_split,
    }
    types |= dict.fromkeys(INTEGERS, "i32")
    return compiled(matmul_kernel, types, constants, capability, tiles.warps, folder)


def attended(capability: int, walk: Walk, is_split: bool, head_dim: int, folder: Path) -> Found:
    """Causal attention with a mask, of 16 heads."""
    from model.ops.attention_kernel import attention_kernel

    constants = {
        "HEADS": 16,
        "HEAD_DIM": head_dim,
        "CAUSAL": True,
        "MASKED": True,
        "SPLIT": is_split,
        "OUT_SPLIT": is_split,
        "OUT_TRIPLED": False,
        "STAGES": walk.stages,
        "BLOCK_M": walk.block_m,
        "BLOCK_N": walk.block_n,
    }
    return compiled(attention_kernel, ATTENTION, constants, capability, walk.warps, folder)


@pytest.mark.parametrize(
    ("capability", "tiles", "is_split", "gelu"),
    [
        (90, Tiles(128, 256, 32), True, True),
        (90, Tiles(128, 256, 64, stages=4, descriptors=True), False, True),
        (90, Tiles(128, 128, 64, ordered=True, descriptors=True, persistent=True), True, False),
        (90, Tiles(128, 128, 64), True, False),
        (80, Tiles(), True, False),
    ],
)
def test_products(
    capability: int, tiles: Tiles, is_split: bool, gelu: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Default and candidate cuts: shared memory within a block's limit, few bytes spilled, tensor cores."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    built = product(capability, tiles, is_split, gelu, tmp_path)
    assert built.broken() == ""
    assert built.tensor >= 4


@pytest.mark.parametrize(
    ("capability", "walk", "is_split", "head_dim", "spilled"),
    [
        (90, Walk(128, 64, 8, 3), True, 64, 0),
        (90, Walk(128, 128, 8, 2), False, 64, 0),
        (90, Walk(128, 16, 8), True, 256, 0),
        (80, Walk(64, 32), True, 64, 0),
    ],
)
def test_attentions(
    capability: int,
    walk: Walk,
    is_split: bool,
    head_dim: int,
    spilled: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No default cut spills; all fit and use tensor cores."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    built = attended(capability, walk, is_split, head_dim, tmp_path)
    assert built.broken() == ""
    assert built.usage and built.usage.stack <= spilled
    assert built.tensor >= 16
