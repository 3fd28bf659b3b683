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
    """Bytes of shared memory of a block and of stack of a thread; instructions, and spills in inner loops."""

    shared: int
    stack: int
    tensor_instructions: int
    inner_spills: int


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
    found = re.search(r"STACK:(\d+)", usage)
    assert found, usage
    code = _output(tools / "nvdisasm", "-c", cubin)
    tensor = re.findall(r"\b(?:HMMA|HGMMA)\b", code)
    return Built(kernel.metadata.shared, int(found[1]), len(tensor), _inner_spills(code))


def _inner_spills(code: str) -> int:
    """Moves to and from the stack in loops that hold no other loop: stretches behind a backward branch."""
    labels: dict[str, int] = {}
    instructions: list[str] = []
    for line in code.splitlines():
        if label := re.match(r"\s*(\.L_x_\d+):", line):
            labels[label[1]] = len(instructions)
        elif instruction := re.search(r"/\*[0-9a-f]{4,}\*/\s+(.*?);", line):
            instructions.append(instruction[1])
    targets = {
        index: labels[branch[1]]
        for index, text in enumerate(instructions)
        if (branch := re.search(r"BRA.*`\((\.L_x_\d+)\)", text)) and branch[1] in labels
    }
    # The last branch, which goes to itself, is no loop.
    loops = [(begin, end) for end, begin in targets.items() if begin < end]
    inner = [a for a in loops if not any(a != b and a[0] <= b[0] and b[1] <= a[1] for b in loops)]
    spills = re.compile(r"\b(?:STL|LDL)\b")
    return sum(bool(spills.search(text)) for begin, end in inner for text in instructions[begin : end + 1])


def _output(*command: object) -> str:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True).stdout
