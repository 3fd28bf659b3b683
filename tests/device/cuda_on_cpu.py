"""The CUDA C++ of the ops run on a CPU: the same texts, lane by lane, under a C++ compiler.

The functions of `cuda_tiles_text.WARP`, one for each instruction of the GPU, are replaced by their
definitions in the PTX ISA. Every thread of a block is a fiber; what a warp or a block does together waits for
all of them, and a block that waits for ever is an error. So layouts of fragments, addresses, edges and
barriers are tried where there is no GPU; what is not: the compiler's work, races between barriers, the tensor
cores' rounding.
"""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from model.ops.cuda_driver import KINDS, Start
from model.ops.cuda_tiles_text import WARP

COMPILER = shutil.which("g++")
_HERE = Path(__file__).parent


class OnCpu:
    """Compiles and loads as `cuda_driver.Loader` does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(
        self, text: str, name: str, signature: str, shared: int, defines: Mapping[str, int]
    ) -> Start:
        """See `cuda_driver.Load`; WARP is replaced."""
        assert text.startswith(WARP) and shared <= 64 * 1024
        whole = (
            f'#include "{_HERE / "cuda_on_cpu.h"}"\n'
            + text.removeprefix(WARP)
            + f'extern "C" const char *launch(int blocks, int threads, void **given)'
            f"{{ return run({name}, blocks, threads, given); }}\n"
        )
        options = [f"-D{key}={value}" for key, value in sorted(defines.items())]
        digest = hashlib.sha256("\0".join([whole, *options]).encode()).hexdigest()[:16]
        library = self._folder / f"{digest}.so"
        if not library.exists():
            source = self._folder / f"{digest}.cc"
            source.write_text(whole)
            command = [str(COMPILER), "-std=c++17", "-O1", "-mf16c", "-w", "-shared", "-fPIC", *options]
            subprocess.run([*command, "-o", str(library), str(source)], check=True)
        launch = ctypes.CDLL(str(library)).launch
        launch.restype = ctypes.c_char_p

        def start(blocks: int, threads: int, stream: int, *arguments: Tensor | float | None) -> None:
            assert stream == 0
            values = [
                KINDS[kind](value.data_ptr() if isinstance(value, Tensor) else value)
                for kind, value in zip(signature, arguments, strict=True)
            ]
            addresses = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
            fault = launch(blocks, threads, addresses)
            assert fault is None, fault

        return start
