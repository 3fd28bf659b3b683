"""CUDA C++ compiled where there is no GPU: for three generations, kept on disk, or refused in words."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from builder import machinecode
from model.ops import cuda
from model.ops.cuda_driver import DriverError, Function

pytestmark = pytest.mark.skipif(
    find_spec("nvidia") is None or find_spec("triton") is None, reason="NVRTC or Triton's tools are missing"
)
TEXT = 'extern "C" __global__ void scale(float *x) { x[threadIdx.x] *= FACTOR; }\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of the test's own, and a compiler that is looked for anew."""
    monkeypatch.setenv(cuda.CACHE, str(tmp_path / "cache"))
    cuda.find_compiler.cache_clear()
    yield tmp_path / "cache" / "ops"
    cuda.find_compiler.cache_clear()


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_a_text_becomes_machine_code(arch: str) -> None:
    """A cubin for a card that is not here, which NVIDIA's own tools can read."""
    found = machinecode.read(cuda.build(TEXT, arch, {"FACTOR": 3}))["scale"]
    assert 0 < found.registers < 32 and found.count(r"\bFMUL\b") == 1


def test_ptx_is_text_for_the_driver() -> None:
    """An architecture that is no card's gives PTX that says which it is for, and ends in a zero byte."""
    image = cuda.build(TEXT, "compute_75", {"FACTOR": 3})
    assert b".target sm_75" in image and image.endswith(b"\0")


def test_an_image_is_compiled_once(folder: Path) -> None:
    """What is on disk is taken as it is; another definition or architecture is another image."""
    cuda.build(TEXT, "sm_75", {"FACTOR": 3})
    (kept,) = folder.iterdir()
    kept.write_bytes(b"kept")
    assert cuda.build(TEXT, "sm_75", {"FACTOR": 3}) == b"kept"
    assert cuda.build(TEXT, "sm_75", {"FACTOR": 4}) != b"kept"
    assert cuda.build(TEXT, "sm_80", {"FACTOR": 3}) != b"kept"
    assert len(list(folder.iterdir())) == 3


def test_several_at_once_leave_one_whole_image(folder: Path) -> None:
    """Processes that build the same at the same time do not read halves of each other's files."""
    with ThreadPoolExecutor(4) as pool:
        images = set(pool.map(lambda _: cuda.build(TEXT, "sm_75", {"FACTOR": 5}), range(8)))
    (kept,) = folder.iterdir()
    assert images == {kept.read_bytes()}


def test_a_folder_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs compiling again and nothing else."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(cuda.CACHE, str(tmp_path / "file"))
    assert cuda.build(TEXT, "sm_75", {"FACTOR": 3})


def test_a_wrong_text_is_told_with_its_line() -> None:
    """The error names the compiler and its first complaint."""
    with pytest.raises(cuda.BuildError, match=r"NVRTC \d+\.\d+: .*op\.cu\(1\): error: identifier \"FACTOR\""):
        cuda.build(TEXT, "sm_75")


def test_where_there_is_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With neither library nor program the error says so, and why a library that is there does not serve."""
    monkeypatch.setattr(cuda, "libraries", lambda: iter([tmp_path / "libnvrtc.so.1"]))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(cuda, "NVCC", str(tmp_path))
    with pytest.raises(cuda.BuildError, match=r"no CUDA compiler: .*; libnvrtc\.so\.1 cannot be loaded"):
        cuda.build(TEXT, "sm_75")


def test_a_compiler_that_is_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """nvcc is asked when NVRTC is not there; its failure is told in its words."""
    program = tmp_path / "nvcc"
    program.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "Build 12.9" && exit\n'
        'for last; do :; done\ngrep -q scale "$last" || { echo "$last(1): error: no scale"; exit 2; }\n'
        'while [ "$1" != -o ]; do shift; done\necho image > "$2"\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(cuda, "libraries", lambda: iter(()))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert cuda.find_compiler().name == "Build 12.9"
    assert cuda.build(TEXT, "sm_75") == b"image\n"
    with pytest.raises(cuda.BuildError, match=r"nvcc: exit 2: .*error: no scale"):
        cuda.build("int x;", "sm_75")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_nothing_is_loaded_without_a_gpu() -> None:
    """Loading fails with an error of its own or torch's, which a route tells, and not with a crash."""
    with pytest.raises((DriverError, RuntimeError, AssertionError)):
        Function(cuda.build(TEXT, "sm_75", {"FACTOR": 3}), "scale", "P", 0, torch.device("cuda", 0))
