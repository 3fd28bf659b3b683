"""What a cubin takes and is made of, as Triton's copies of NVIDIA's tools read it. No GPU is needed."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

TENSOR = r"\b(?:HMMA|HGMMA)\b"


@dataclass(frozen=True)
class Usage:
    """Of one function: registers and bytes of stack of a thread, static shared bytes, instructions."""

    registers: int
    stack: int
    shared: int
    code: str

    def count(self, pattern: str) -> int:
        """How many instructions match a regular expression."""
        return len(re.findall(pattern, self.code))


def usage(image: bytes, folder: Path, function: str = "") -> Usage:
    """Read a cubin; `function` names one of several."""
    cubin = folder / "read.cubin"
    cubin.write_bytes(image)
    told = _tool("cuobjdump", "-res-usage", cubin)
    found = re.search(rf"Function {function}[^:]*:\s*REG:(\d+) STACK:(\d+) SHARED:(\d+)", told)
    assert found, told
    code = _tool("nvdisasm", "-c", cubin)
    parts = re.split(r"\.section\s+\.text\.", code)
    code = next(part for part in parts[1:] if part.startswith(function))
    return Usage(int(found[1]), int(found[2]), int(found[3]), code)


def _tool(name: str, *arguments: object) -> str:
    spec = find_spec("triton")
    assert spec and spec.origin
    command = [Path(spec.origin).parent / "backends/nvidia/bin" / name, *arguments]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True).stdout
