"""One Triton function, or one of CUDA C++, compiled for one architecture; no GPU is needed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Work:
    """What is to be compiled: types and constants by argument, and for which sm_`arch`.

    `aligned`: arguments that are divisible by 16; `options`: num_warps and the like; `label` tells where such
    a variant is used; `tensor`: whether tensor-core instructions are claimed.
    """

    function: Any
    types: dict[str, str]
    constants: dict[str, Any]
    aligned: Sequence[str]
    options: dict[str, Any]
    arch: int
    name: str
    label: str = ""
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def key(self) -> str:
        """What makes one variant differ from another."""
        return repr((self.name, self.types, self.constants, self.aligned, self.options))


@dataclass(frozen=True)
class CudaWork:
    """A function of a CUDA C++ text, its macros, and the bytes of shared memory that a launch asks for."""

    text: str
    defines: dict[str, int]
    shared: int
    arch: int
    name: str
    label: str = ""

    @property
    def key(self) -> str:
        """See `Work.key`."""
        return repr((self.name, self.defines, self.shared))


def compiled_cuda(work: CudaWork, folder: Path) -> dict[str, Any]:
    """Compile; return where the machine code lies, or the compiler's own words."""
    from model.ops.cuda import BuildError, build

    told: dict[str, Any] = {"function": work.name, "arch": work.arch, "label": work.label}
    path = folder / f"{next(_NUMBERS)}.cubin"
    try:
        path.write_bytes(build(work.text, f"sm_{work.arch}", work.defines))
    except BuildError as problem:
        return {**told, "error": str(problem)}
    return {**told, "cubin": str(path), "mangled": work.name, "shared": work.shared}


def compiled(work: Work, folder: Path) -> dict[str, Any]:
    """Compile; return where the machine code lies, or Triton's own words."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    told: dict[str, Any] = {"function": work.name, "arch": work.arch, "label": work.label}
    names = work.function.arg_names
    types = {name: work.types.get(name, "constexpr") for name in names}
    aligned = {(names.index(name),): [["tt.divisibility", 16]] for name in work.aligned}
    try:
        source = ASTSource(work.function, types, work.constants, aligned)
        kernel: Any = triton.compile(source, target=GPUTarget("cuda", work.arch, 32), options=work.options)
    except Exception as problem:  # noqa: BLE001 - whatever the compiler says is the answer
        return {**told, "error": _last(problem)}
    path = folder / f"{next(_NUMBERS)}.cubin"
    path.write_bytes(kernel.asm["cubin"])
    return {
        **told,
        "cubin": str(path),
        "mangled": kernel.metadata.name,
        "shared": kernel.metadata.shared,
        "dots": len(re.findall(r"\btt\.dot\b", kernel.asm["ttir"])),
        "notes": list(work.notes),
    }


def _last(problem: BaseException) -> str:
    """The innermost sentence of what the compiler says, with the line of the op if it names one."""
    while problem.__cause__ is not None:
        problem = problem.__cause__
    lines = [line.strip() for line in str(problem).splitlines() if line.strip() and set(line) - set(" ^~")]
    return f"{type(problem).__name__}: {lines[-1] if lines else ''}"[:300]
