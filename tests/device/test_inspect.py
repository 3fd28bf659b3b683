"""`ferry inspect`: anybody's op compiled for cards that are not here."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.command import run_ferry

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed here")
OP = '''
import triton
import triton.language as tl

print("what a file prints is no answer")

@triton.jit
def product(a, b, out, K, GELU: tl.constexpr, BLOCK: tl.constexpr):
    """[BLOCK,K] @ [K,BLOCK]."""
    rows = tl.arange(0, BLOCK)
    deep = tl.arange(0, 32)
    acc = tl.zeros([BLOCK, BLOCK], tl.float32)
    for k in range(0, K, 32):
        x = tl.load(a + rows[:, None] * K + (k + deep)[None, :])
        acc = tl.dot(x, tl.load(b + (k + deep)[:, None] * BLOCK + rows[None, :]), acc)
    tl.store(out + rows[:, None] * BLOCK + rows[None, :], acc)
'''
CUDA = 'extern "C" __global__ void scale(float *x) { x[threadIdx.x] *= FACTOR; }\n'


def asked(*arguments: str, cwd: Path) -> dict[str, Any]:
    """The JSON document of an inspection."""
    done = run_ferry("inspect", *arguments, "--json", cwd=cwd)
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["exit_code"] == done.returncode, done.stderr
    return told


@pytest.mark.slow
def test_a_triton_op(tmp_path: Path) -> None:
    """Its products run on scalar units on a T4 and on tensor cores on an A100; what was guessed is told."""
    (tmp_path / "op.py").write_text(OP)
    told = asked("op.py", "--arch", "sm_75,80", "--constants", "GELU=False,BLOCK=32", cwd=tmp_path)
    turing, ampere = told["functions"]
    assert (turing["tensor"], turing["dots"], ampere["dots"]) == ({}, 1, 1)
    assert "this `tl.dot` runs on scalar units on a T4" in turing["sentence"]
    assert ampere["tensor"]["HMMA"] > 0 and ampere["registers"] > 0
    assert ampere["notes"] == ["guessed: a=*fp16, b=*fp16, out=*fp16, K=i32"]


def test_what_cannot_be_guessed_is_asked_for(tmp_path: Path) -> None:
    """A constant that is no size of a block is named, with the option that gives it."""
    (tmp_path / "op.py").write_text(OP)
    told = asked("op.py", cwd=tmp_path)
    assert told["exit_code"] == 2
    assert told["error"]["message"] == "product has constants that cannot be guessed: GELU"
    assert told["error"]["hint"] == "give them: --constants GELU=…"


@pytest.mark.skipif(find_spec("nvidia") is None, reason="NVRTC is not installed here")
def test_a_cuda_file(tmp_path: Path) -> None:
    """Constants are its macros; a text that does not compile is exit 3, in the compiler's words."""
    (tmp_path / "op.cu").write_text(CUDA)
    (one,) = asked("op.cu", "--arch", "sm_75", "--constants", "FACTOR=3", cwd=tmp_path)["functions"]
    assert one["function"] == "scale" and one["registers"] > 0
    told = asked("op.cu", "--arch", "sm_75", cwd=tmp_path)
    assert told["exit_code"] == 3 and 'identifier "FACTOR" is undefined' in told["functions"][0]["wrong"]


def test_an_order_that_means_nothing() -> None:
    """Neither file nor --ours, no architecture, no such file: one sentence each, exit 2."""
    for words in ([], ["op.py", "--ours"], ["op.py", "--arch", "turing"], ["no_such.py"]):
        done = run_ferry("inspect", *words)
        assert done.returncode == 2 and "hint: " in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(find_spec("nvidia") is None, reason="NVRTC is not installed here")
def test_what_our_routes_launch_on_a_t4_keeps_to_limits() -> None:
    """Every variant of shapes 1 and 8 fits, spills no more than it may, and attends on tensor cores."""
    done = run_ferry("inspect", "--ours", "--shapes", "1,8", "--arch", "sm_75", "--json")
    found = json.loads(done.stdout)["functions"]
    for one in found:
        print(one["function"], one["label"], one["registers"], one["stack"], one["shared"], one["tensor"])
    assert done.returncode == 0, [one["wrong"] for one in found]
    assert {one["function"] for one in found} == {"layernorm", "finish", "attention"}
    assert all(("HMMA" in one["tensor"]) is (one["function"] == "attention") for one in found)
