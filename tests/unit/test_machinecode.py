"""What is read out of a disassembly, and what is said of it, with no compiler at hand."""

import pytest

from builder.inspecting import Found, sentence
from builder.machinecode import Usage
from templates.inspect import guessing

CODE = """
 /*0000*/ STL [R1], R2 ;
.L_x_1:
 /*0010*/ LDL R3, [R1] ;
.L_x_2:
 /*0020*/ HMMA.1688.F32 R4, R2, R3, R4 ;
 /*0030*/ STL [R1+0x4], R5 ;
 /*0040*/ @P0 BRA `(.L_x_2) ;
 /*0050*/ @!P0 BRA `(.L_x_1) ;
.L_x_3:
 /*0060*/ BRA `(.L_x_3);
"""
OP = """
def scale(a, b, n, eps, BLOCK: tl.constexpr):
    cells = b + tl.arange(0, BLOCK)
    tl.store(cells + n, tl.load(a) * eps)
"""


def found(arch: int = 75, dots: int = 0, shared: int = 0, stack: int = 0, code: str = "") -> Found:
    """A function with so many matrix products, bytes and instructions."""
    return Found("f", arch, Usage(32, stack, 0, code), shared, dots)


def test_instructions_are_counted() -> None:
    """Tensor-core instructions by name; of spills those in the innermost loop, and an end's loop is none."""
    usage = Usage(32, 8, 0, CODE)
    assert usage.tensor == {"HMMA": 1} and usage.hot_spills == 1


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (found(dots=1), "this `tl.dot` runs on scalar units on a T4: Triton from 3.3 on emits no tensor"),
        (found(90, dots=2), "these 2 `tl.dot` run on scalar units on an H100 or H200: its operands"),
        (found(90, 1, code="HGMMA HGMMA"), "runs on tensor cores on an H100 or H200 (2 HGMMA)"),
        (found(), "has no tensor-core instruction on a T4 and no `tl.dot`"),
        (found(shared=65 * 1024), "f takes 65 KiB of shared memory a block, and a T4 has 64"),
        (Found("f", 75, error="no"), "f does not compile for sm_75: no"),
    ],
)
def test_one_sentence_says_what_matters(one: Found, said: str) -> None:
    """Scalar units, tensor cores, neither, too much shared memory, or no machine code at all."""
    assert sentence(one).startswith(said)


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (found(dots=1), "multiplies matrices on scalar units"),
        (found(stack=8), "spills 8 bytes a thread, more than 0"),
        (
            found(code=".L:\n" + "STL\n" * 5 + "BRA `(.L)"),
            "spills by 5 instructions in its innermost loops, more than 0",
        ),
        (found(90, 1, code="HGMMA"), ""),
    ],
)
def test_limits_of_our_own(one: Found, said: str) -> None:
    """Our own ops multiply on tensor cores and do not spill."""
    assert one.broken() == said


def test_pointers_are_what_is_read_or_written() -> None:
    """An argument is a pointer when an address that is read or written begins with it."""
    assert guessing.pointers_of(OP, "scale") == {"a", "b", "cells"}
