"""What a cubin takes and is made of, as Triton's copies of NVIDIA's tools read it; no GPU is needed.

Sources: limits of a card: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability";
instructions: CUDA Binary Utilities, "Instruction Set Reference".
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from builder.errors import InfrastructureError, UsageError

CARDS = {
    70: "a V100",
    75: "a T4",
    80: "an A100",
    86: "an RTX 30xx or A10",
    89: "an L4 or RTX 40xx",
    90: "an H100 or H200",
    100: "a B200",
    120: "an RTX 50xx or RTX PRO 6000",
}
# Most shared memory of a block.
SHARED_KIB = {70: 96, 75: 64, 80: 163, 86: 99, 89: 99, 90: 227, 100: 227, 120: 99}
TENSOR = re.compile(r"\b(?:HMMA|IMMA|BMMA|DMMA|QMMA|OMMA|[HIQB]GMMA|UTC\w*MMA)\b")
SPILL = re.compile(r"\b(?:STL|LDL)\b")
_TOOLS = "backends/nvidia/bin"
_SECONDS = 60
_USAGE = re.compile(r"Function ([\w$.]+):\s*REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
_LABEL = re.compile(r"^\s*(\.\w+):")
_BRANCH = re.compile(r"\bBRA(?:\.\w+)*\b.*`\((\.\w+)\)")


@dataclass(frozen=True)
class Usage:
    """Of one function: registers and bytes of stack of a thread, bytes of static shared memory, its code."""

    registers: int
    stack: int
    shared: int
    code: str = field(repr=False)

    def count(self, pattern: str) -> int:
        """Count the instructions that match a regular expression."""
        return len(re.findall(pattern, self.code))

    @property
    def tensor(self) -> dict[str, int]:
        """Tensor-core instructions by name."""
        return dict(Counter(TENSOR.findall(self.code)))

    @property
    def hot_spills(self) -> int:
        """Instructions of innermost loops that move registers to memory or back."""
        lines = self.code.splitlines()
        loops = list(_loops(lines))
        inner = [one for one in loops if not any(_holds(one, other) for other in loops)]
        hot = {number for first, last in inner for number in range(first, last + 1)}
        return sum(1 for number in hot if SPILL.search(lines[number]))


def _loops(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the first and last line of what each branch back jumps over; a branch to itself is no loop."""
    labels: dict[str, int] = {}
    for number, line in enumerate(lines):
        if label := _LABEL.match(line):
            labels[label[1]] = number
        elif (branch := _BRANCH.search(line)) and number - labels.get(branch[1], number) > 1:
            yield labels[branch[1]], number


def _holds(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one != other and one[0] <= other[0] and other[1] <= one[1]


def tools() -> Path:
    """Return the folder of NVIDIA's tools that Triton brings. UsageError when there is no Triton here."""
    spec = find_spec("triton")
    for place in spec.submodule_search_locations or () if spec else ():
        if (found := Path(place, _TOOLS)).is_dir():
            return found
    raise UsageError(
        "inspecting an op needs Triton, and it is not installed here", "pip install triton (Linux; no GPU)"
    )


def read(image: bytes) -> dict[str, Usage]:
    """Return what each function of a cubin takes, by its name in the machine code."""
    with tempfile.TemporaryDirectory(prefix="ferry-cubin-") as folder:
        cubin = Path(folder, "image.cubin")
        cubin.write_bytes(image)
        told = _said("cuobjdump", "-res-usage", cubin)
        sections = re.split(r"\.section\s+\.text\.", _said("nvdisasm", "-c", cubin))[1:]
    codes = {re.split(r"[\s,\"]", section, maxsplit=1)[0]: section for section in sections}
    return {
        name: Usage(int(registers), int(stack) + int(local), int(shared), codes.get(name, ""))
        for name, registers, stack, shared, local in _USAGE.findall(told)
    }


def _said(tool: str, *arguments: object) -> str:
    command = [str(part) for part in (tools() / tool, *arguments)]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=_SECONDS).stdout
    except (OSError, subprocess.SubprocessError) as problem:
        raise InfrastructureError(f"{tool} cannot read the machine code: {problem}") from problem
