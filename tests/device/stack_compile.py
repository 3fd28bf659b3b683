"""The op `stack` compiled for a GPU that need not be there: what the result takes and is made of."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.ops.stack import Tuning

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


@dataclass(frozen=True)
class Built:
    """Bytes of shared memory of a block and of stack of a thread, registers of a thread, instructions."""

    shared: int
    stack: int
    registers: int
    tensor_instructions: int


def build(capability: int, constants: dict[str, object], tuning: Tuning, folder: Path) -> Built:
    """Compile for sm_`capability` and look at the machine code; `constants` are the kernel's."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from model.ops.stack_kernel import stack_kernel

    names: list[str] = stack_kernel.arg_names
    aligned = {(index,): [["tt.divisibility", 16]] for index in range(8)}
    types = {name: TYPES.get(name, "constexpr") for name in names}
    known = {name: value for name, value in constants.items() if name in names}  # options are none
    source = ASTSource(stack_kernel, types, known, aligned)
    kernel: Any = triton.compile(
        source, target=GPUTarget("cuda", capability, 32), options={"num_warps": tuning.warps}
    )
    cubin = folder / "stack.cubin"
    cubin.write_bytes(kernel.asm["cubin"])
    tools = Path(triton.__file__).parent / "backends/nvidia/bin"
    usage = _output(tools / "cuobjdump", "-res-usage", cubin)
    found = re.search(r"REG:(\d+) STACK:(\d+)", usage)
    assert found, usage
    code = _output(tools / "nvdisasm", "-c", cubin)
    tensor = re.findall(r"\b(?:HMMA|HGMMA)\b", code)
    return Built(kernel.metadata.shared, int(found[2]), int(found[1]), len(tensor))


def _output(*command: object) -> str:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True).stdout
