"""One Triton function compiled for one architecture; no GPU is needed."""

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
