"""CUDA C++ text → machine code, at run time, with what the machine has: NVRTC, or else nvcc. No GPU needed.

    built = build(text, "sm_75", {"HEAD_DIM": 64})       # a cubin for that very card
    built = build(text, "compute_75")                    # PTX, which the driver compiles for any later card

NVRTC is looked for beside torch, in NVIDIA's wheels and on the system. Results are kept on disk by a hash of
text, options and compiler, in a folder that is the caller's or a temporary one. Texts include no header: a
machine that runs torch has NVRTC, but often no CUDA headers. Standard library only; `cuda_driver` runs what
is built here.

Source: NVRTC's user guide.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

CACHE = "CUDA_CACHE_PATH"  # where the driver, too, keeps what it compiles
NVCC = "/usr/local/cuda/bin"  # where it lies when no path leads there
SECONDS = 300  # nvcc is given up then; NVRTC cannot be


class BuildError(RuntimeError):
    """There is no compiler, or it refused the text; the message ends in what it said."""


class Compiler(Protocol):
    """What turns a text into a cubin, or into PTX for an architecture named compute_…"""

    @property
    def name(self) -> str:
        """What it is, with its version: part of the key that results are kept by."""

    def compile(self, text: str, options: list[str], arch: str) -> bytes:
        """The image. Raises BuildError with the compiler's own words."""


def build(text: str, arch: str, defines: Mapping[str, int] | None = None) -> bytes:
    """The image of a CUDA C++ text for `arch`, sm_NN or compute_NN, from the cache if it is there.

    Raises BuildError where it cannot be compiled.
    """
    options = [f"-D{name}={value}" for name, value in sorted((defines or {}).items())]
    compiler = find_compiler()
    key = hashlib.sha256("\0".join([compiler.name, arch, *options, text]).encode()).hexdigest()
    kept = _folder() / f"{key[:40]}.{'ptx' if is_virtual(arch) else 'cubin'}"
    try:
        return kept.read_bytes()
    except OSError:
        image = compiler.compile(text, options, arch)
        _keep(kept, image)
        return image


def is_virtual(arch: str) -> bool:
    """Whether an architecture names an instruction set (PTX) and no card."""
    return arch.startswith("compute_")


@functools.cache
def find_compiler() -> Compiler:
    """The first that there is. Raises BuildError when there is none, saying where it was looked for."""
    refused = ""
    for path in libraries():
        try:
            return Nvrtc(path)
        except OSError as error:
            refused = refused or f"; {path.name} cannot be loaded: {error}"
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path=NVCC)
    if nvcc:
        return Nvcc(nvcc)
    raise BuildError(f"no CUDA compiler: no NVRTC beside torch, in NVIDIA's packages, on the system{refused}")


def libraries() -> Iterator[Path]:
    """Files that may be NVRTC, the likeliest first."""
    pattern = "nvrtc64_*.dll" if sys.platform == "win32" else "libnvrtc[.-]*so*"
    for folder in _folders():
        for path in sorted(folder.glob(pattern), reverse=True):
            if not {"alt", "builtins"} & set(path.name.replace("-", ".").split(".")):
                yield path
    found = ctypes.util.find_library("nvrtc")
    if found:
        yield Path(found)


def _folders() -> Iterator[Path]:
    for place in _places("torch"):
        yield place / "lib"
    for place in _places("nvidia"):
        for pattern in ("cuda_nvrtc/lib", "cu*/lib", "cuda_nvrtc/bin"):
            yield from sorted(place.glob(pattern), reverse=True)
    yield from sorted(Path("/usr/local").glob("cuda*/lib64"), reverse=True)


def _places(package: str) -> list[Path]:
    spec = find_spec(package)
    return [Path(place) for place in spec.submodule_search_locations or ()] if spec else []


class Nvrtc:
    """NVIDIA's compiler as a library. Raises OSError where the file is none."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.name = f"NVRTC {major.value}.{minor.value}"
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def compile(self, text: str, options: list[str], arch: str) -> bytes:
        """See `Compiler.compile`."""
        program = ctypes.c_void_p()
        source = ctypes.c_char_p(text.encode())
        self._check(
            self._library.nvrtcCreateProgram(ctypes.byref(program), source, b"op.cu", 0, None, None), ""
        )
        try:
            given = [option.encode() for option in (f"-arch={arch}", "-std=c++17", *options)]
            array = (ctypes.c_char_p * len(given))(*given)
            status = self._library.nvrtcCompileProgram(program, len(given), array)
            self._check(status, self._read(program, "ProgramLog").decode(errors="replace") if status else "")
            return self._read(program, "PTX" if is_virtual(arch) else "CUBIN")
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _read(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), "")
        room = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._library, f"nvrtcGet{what}")(program, room), "")
        return room.raw

    def _check(self, status: int, log: str) -> None:
        if status:
            told = self._library.nvrtcGetErrorString(status).decode()
            raise BuildError(f"{self.name}: {told}{_first_error(log)}")


@dataclass(frozen=True)
class Nvcc:
    """NVIDIA's compiler as a program."""

    path: str

    @property
    def name(self) -> str:
        """Its last line of `--version`, which tells the very build."""
        return _run([self.path, "--version"]).strip().splitlines()[-1]

    def compile(self, text: str, options: list[str], arch: str) -> bytes:
        """See `Compiler.compile`."""
        kind = "ptx" if is_virtual(arch) else "cubin"
        with tempfile.TemporaryDirectory() as folder:
            source, image = Path(folder, "op.cu"), Path(folder, f"op.{kind}")
            source.write_text(text, encoding="utf-8")
            _run([self.path, f"-{kind}", f"-arch={arch}", "-std=c++17", *options, "-o", image, source])
            return image.read_bytes()


def _run(command: list[object]) -> str:
    try:
        return subprocess.run(
            [str(part) for part in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
            timeout=SECONDS,
        ).stdout
    except subprocess.CalledProcessError as error:
        raise BuildError(f"nvcc: exit {error.returncode}{_first_error(error.output)}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"nvcc: {error}") from None


def _first_error(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    told = next((line for line in lines if "error" in line), lines[0] if lines else "")
    return f": {told}" if told else ""


def _folder() -> Path:
    given = os.environ.get(CACHE)
    if given:
        return Path(given, "ops")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "gpuferry", "ops")


def _keep(path: Path, image: bytes) -> None:
    """Write in one step, or not at all: a folder that cannot be written to costs compiling again."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(image)
        Path(name).replace(path)
    except OSError:
        return
