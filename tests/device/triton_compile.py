"""A Triton function compiled for a GPU that need not be there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from builder import inspecting
from builder.inspecting import Found
from templates.inspect.compiling import Work
from templates.inspect.compiling import compiled as compile_work


def compiled(
    kernel: Any,
    types: Mapping[str, str],
    constants: Mapping[str, Any],
    capability: int,
    warps: int,
    folder: Path,
) -> Found:
    """Compile for sm_`capability` and look at the machine code; what has no type is a constant.

    Pointers and integers are taken to be divisible by 16.
    """
    known = {name: kind for name, kind in types.items() if name in kernel.arg_names}
    aligned = [name for name, kind in known.items() if kind[0] in "*i"]
    fixed = {name: value for name, value in constants.items() if name in kernel.arg_names}
    options = {"num_warps": warps}
    work = Work(kernel, known, fixed, aligned, options, capability, kernel.fn.__name__)
    (found,) = inspecting.read(compile_work(work, folder))
    assert found.usage, found.error
    return found
