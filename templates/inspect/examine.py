"""The process that compiles somebody's op for cards that are not here. `builder.inspecting` starts it.

    python -m templates.inspect.examine < order      one JSON object in, one line of JSON out for each result

An order names a file, the architectures, a folder for machine code and what is known of the arguments. Only
here, and never in the host's own process, is Triton imported, and the file run.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from templates.inspect import guessing
from templates.inspect.compiling import CudaWork, Work, compiled, compiled_cuda

GLOBAL = re.compile(r"__global__[^;{(]*?\b(\w+)\s*\(")


def main() -> None:
    """Read the order, write the answers; whatever else is printed goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    order = json.load(sys.stdin)
    for answer in answered(order):
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def answered(order: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a result for each op and architecture, or what is wrong with the order."""
    if order["file"].endswith(".cu"):
        yield from cuda(order)
        return
    try:
        for work in works(order) if order["file"] else ours(order):
            make: Any = compiled_cuda if isinstance(work, CudaWork) else compiled
            yield make(work, Path(order["folder"]))
    except guessing.UnknownError as unknown:
        yield {"refused": str(unknown), "hint": unknown.hint}


def ours(order: dict[str, Any]) -> Iterator[Work | CudaWork]:
    """Yield what our own routes launch; this alone needs torch."""
    from templates.inspect.ours import works

    yield from works(order)


def works(order: dict[str, Any]) -> Iterator[Work]:
    """Yield what is to be compiled of a file's jitted functions: each that no other calls, or those named."""
    path = Path(order["file"])
    told = described(module := loaded(path))
    functions = jitted(module)
    text = path.read_text(encoding="utf-8")
    wanted = order["functions"] or [name for name in functions if name not in guessing.called(text)]
    for name in wanted:
        if name not in functions:
            there = ", ".join(functions) or "none"
            raise guessing.UnknownError(f"no jitted function {name!r} in {path.name}", f"there are: {there}")
        function, first = functions[name]
        known = {**first, **told.get(name, {}).get("constants", {}), **order["constants"]}
        signature = {**told.get(name, {}).get("signature", {}), **positional(function, order["signature"])}
        plan = guessing.settle(name, function, text, signature, known)
        options = {key: known[key] for key in ("num_warps", "num_stages", "num_ctas") if key in known}
        for arch in order["archs"]:
            yield Work(
                function, plan.types, plan.constants, plan.aligned, options, arch, name, notes=plan.notes
            )


def positional(function: Any, given: list[str]) -> dict[str, str]:
    """Types by name, from `name=type`, or from types alone in the order of what is no constant."""
    constants = {parameter.name for parameter in function.params if parameter.is_constexpr}
    order = [name for name in function.arg_names if name not in constants]
    named = dict(pair.split("=", 1) for pair in given if "=" in pair)
    return {**dict(zip(order, (one for one in given if "=" not in one), strict=False)), **named}


def loaded(path: Path) -> ModuleType:
    """Run a file as a module, its folder importable."""
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise guessing.UnknownError(f"{path.name} is no Python file", "name a .py or a .cu file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as problem:
        said = f"{path.name} cannot be imported: {type(problem).__name__}: {problem}"
        raise guessing.UnknownError(said, "it must import here, without a GPU") from problem
    return module


def described(module: ModuleType) -> dict[str, Any]:
    """What the file itself says: INSPECT = {function: {"signature": {…}, "constants": {…}}}."""
    told = getattr(module, "INSPECT", {})
    return told if isinstance(told, dict) else {}


def jitted(module: ModuleType) -> dict[str, tuple[Any, dict[str, Any]]]:
    """The file's own jitted functions by name, each with the constants of its first autotuner's choice."""
    from triton.runtime.jit import JITFunction

    found = {}
    for name, value in vars(module).items():
        first: dict[str, Any] = {}
        function = value
        while not isinstance(function, JITFunction) and hasattr(function, "fn"):
            for config in getattr(function, "configs", [])[:1]:
                first |= {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}
            function = function.fn
        if isinstance(function, JITFunction) and function.fn.__module__ == module.__name__:
            found[name] = (function, first)
    return found


def cuda(order: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Compile a CUDA C++ file for each architecture with NVRTC or nvcc; the image holds all its functions."""
    from model.ops.cuda import BuildError, find_compiler

    text = Path(order["file"]).read_text(encoding="utf-8")
    names = order["functions"] or GLOBAL.findall(text)
    options = [f"-D{name}={value}" for name, value in order["constants"].items()]
    options += [f"-I{folder}" for folder in (Path(order["file"]).parent, *headers())]
    for arch in order["archs"]:
        try:
            image = find_compiler().compile(text, options, f"sm_{arch}")
        except BuildError as problem:
            yield {"function": Path(order["file"]).name, "arch": arch, "error": str(problem)}
            continue
        path = Path(order["folder"], f"image-{arch}.cubin")
        path.write_bytes(image)
        for name in names:
            yield {"function": name, "arch": arch, "cubin": str(path), "mangled": name}


def headers() -> Iterator[Path]:
    """Folders of NVIDIA's packages that hold CUDA's headers."""
    spec = importlib.util.find_spec("nvidia")
    for place in spec.submodule_search_locations or () if spec else ():
        yield from sorted(Path(place).glob("cuda_*/include"))
        yield from sorted(Path(place).glob("cu*/include"))


if __name__ == "__main__":
    main()
