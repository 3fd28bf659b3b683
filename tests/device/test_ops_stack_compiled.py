"""The op `stack` compiled for GPUs that are not here: it fits, spills in no loop, uses the tensor cores."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.baseline import TransformerConfig
from model.ops.stack import Stack, Tuning, cut, padded_hidden, padded_width
from model.packing import pack
from model.precision import NAMED
from tests.device.stack_cases import loaded
from tests.device.triton_compile import compiled

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed here"),
]
TYPES = {
    "x_ptr": "*fp32",
    "y_ptr": "*fp32",
    "valid_ptr": "*i1",
    "weights_ptr": "*fp16",
    "vectors_ptr": "*fp32",
    "scratch_ptr": "*fp16",
    "flags_ptr": "*i32",
    "seq_len": "i32",
    "blocks": "i32",
    "first": "i32",
    "last": "i32",
}


@pytest.mark.parametrize(
    "capability, precision, tuning",
    [
        (90, "safe", Tuning()),
        (90, "fp16", Tuning(block_m=128, warps=8)),
        (90, "safe", cut(1, 128, 132)),
        (80, "safe", Tuning(block_m=32, warps=8)),
    ],
)
def test_it_fits_and_uses_the_tensor_cores(
    capability: int, precision: str, tuning: Tuning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At D = 128: shared memory within a block's limit, hardly a spill in inner loops, tensor-core code."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    config = TransformerConfig(64, 128, 128, 4, 128, 4, True)
    packed = pack(loaded(config), padded_width(128), padded_hidden(128))
    (launch,) = Stack(packed, 128, True, NAMED[precision]).launches(64, 128, True, tuning)
    from model.ops.stack_kernel import stack_kernel

    built = compiled(stack_kernel, TYPES, launch.constants, capability, tuning.warps, tmp_path)
    assert built.broken() == ""
    assert built.tensor >= 32
