"""A Triton function compiled for a GPU that need not be there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.device.machine_code import TENSOR, usage

# Bytes of shared memory that a block may have.
SHARED = {80: 163 * 1024, 90: 227 * 1024}


@dataclass(frozen=True)
class Built:
    """Bytes of shared memory of a block and of stack of a thread, and tensor-core instructions."""

    shared: int
    stack: int
    tensor_instructions: int


def compiled(
    kernel: Any,
    types: Mapping[str, str],
    constants: Mapping[str, object],
    capability: int,
    warps: int,
    folder: Path,
) -> Built:
    """Compile for sm_`capability` and look at the machine code; what has no type is a constant.

    Pointers and integers are taken to be divisible by 16.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names: list[str] = kernel.arg_names
    signature = {name: types.get(name, "constexpr") for name in names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if signature[name][0] in "*i"}
    source = ASTSource(kernel, signature, dict(constants), aligned)
    made: Any = triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": warps})
    found = usage(made.asm["cubin"], folder)
    return Built(made.metadata.shared, found.stack, found.count(TENSOR))
