"""What the ops do to a tile in registers: halves and their products, LayerNorm, GELU.

Jitted functions, called by the ops' own; `precision` says what split operands are, `packing` what the weights
hold already.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def halves(x, SPLIT: tl.constexpr):
    """The float16 halves of a float32 tile: hi + lo is x to 22 bits; without SPLIT lo is hi."""
    hi = x.to(tl.float16)
    lo = (x - hi.to(tl.float32)).to(tl.float16) if SPLIT else hi
    return hi, lo


@triton.jit
def product(a_hi, a_lo, b_hi, b_lo, acc, SPLIT: tl.constexpr):
    """acc + a @ b in float32, small terms first: low·high + high·low + high·high, or high·high alone."""
    if SPLIT:
        acc = tl.dot(a_lo, b_hi, acc)
        acc = tl.dot(a_hi, b_lo, acc)
    return tl.dot(a_hi, b_hi, acc)


@triton.jit
def load_halves(pointers, lo_offset, SPLIT: tl.constexpr):
    """Both halves of a whole tile, the low one `lo_offset` elements further."""
    hi = tl.load(pointers)
    lo = tl.load(pointers + lo_offset) if SPLIT else hi
    return hi, lo


@triton.jit
def load_rows(pointers, lo_offset, rows_ok, SPLIT: tl.constexpr):
    """Both halves of a tile, zero in the rows that are not there."""
    hi = tl.load(pointers, mask=rows_ok, other=0.0)
    lo = tl.load(pointers + lo_offset, mask=rows_ok, other=0.0) if SPLIT else hi
    return hi, lo


@triton.jit
def store_halves(pointers, lo_offset, x, rows_ok, SPLIT: tl.constexpr):
    """Write a float32 tile as halves."""
    hi, lo = halves(x, SPLIT)
    tl.store(pointers, hi, mask=rows_ok)
    if SPLIT:
        tl.store(pointers + lo_offset, lo, mask=rows_ok)


@triton.jit
def normalised(x, columns, D: tl.constexpr, WIDTH: tl.constexpr):
    """LayerNorm without weight and bias over the first D of WIDTH columns, eps 1e-5; the others are zero."""
    centred = x - (tl.sum(x, 1) / D)[:, None]
    if D != WIDTH:
        centred = tl.where((columns < D)[None, :], centred, 0.0)
    variance = tl.sum(centred * centred, 1) / D
    return centred * tl.rsqrt(variance + 1e-5)[:, None]


@triton.jit
def gelu(x):
    """The exact GELU: x times the normal distribution's share below x."""
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
