"""The sizes of the problem, one row each. Standard library only; the host has them from `harness.shapes`.

The 14 official shapes are the contest's appendix: all causal, FFN width = model width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}

# What the baseline holds at its worst moment: a score twice in float32, or once in a half type and twice more
# around its softmax; eight activations; and what masks take.
_BYTES_PER_SCORE, _BYTES_PER_ELEMENT = 10, 32
_USABLE_SHARE = 0.8  # of a device's memory: judge and worker have a context each, allocators lose some
_TILE = 128


@dataclass(frozen=True)
class Shape:
    """One problem size. B, S, D, H, F, L = batch, sequence, width, heads, FFN width, layers.

    `inputs` names what is done to the contest's random inputs, see `harness.inputs`.
    """

    key: str
    batch: int
    seq_len: int
    d_model: int
    heads: int
    ffn_dim: int
    layers: int
    causal: bool = True
    padding_ratio: float = 0.0
    inputs: str = "normal"

    @property
    def tokens(self) -> int:
        """Tokens of one forward, padding included."""
        return self.batch * self.seq_len

    def io_bytes(self, dtype: str) -> int:
        """The bytes of x and y, without which nothing can run."""
        return 2 * self.tokens * self.d_model * DTYPE_BYTES[dtype]

    def reference_bytes(self, dtype: str) -> int:
        """The least memory in bytes that the baseline needs: its [B,H,S,S] scores, x and y."""
        scores = self.batch * self.heads * self.seq_len**2
        return scores * DTYPE_BYTES[dtype] + self.io_bytes(dtype)

    def baseline_bytes(self, rows: int) -> int:
        """An estimate of the bytes that the baseline holds at its worst moment over `rows` sequences."""
        scores, activations = self.heads * self.seq_len**2, self.seq_len * self.d_model
        return rows * (scores * _BYTES_PER_SCORE + activations * _BYTES_PER_ELEMENT)

    def has_baseline(self, memory_bytes: int) -> bool:
        """Whether the baseline can run over one sequence at least; 0 is a memory of unknown size."""
        return not memory_bytes or self.baseline_bytes(1) <= memory_bytes * _USABLE_SHARE

    def truncated(self, memory_bytes: int) -> Shape:
        """Return one sequence of the greatest length at which the baseline fits.

        The length leaves the same rest as the full one when it is cut into tiles of 128.
        """
        longest = math.isqrt(int(memory_bytes * _USABLE_SHARE) // (self.heads * _BYTES_PER_SCORE))
        while longest > 1 and not replace(self, seq_len=longest).has_baseline(memory_bytes):
            longest = longest * 9 // 10
        if longest > _TILE:
            longest -= (longest - self.seq_len) % _TILE
        return replace(self, batch=1, seq_len=max(1, min(longest, self.seq_len)))


def _official(number: int, batch: int, d_model: int, heads: int, seq_len: int, layers: int = 4) -> Shape:
    return Shape(f"s{number:02d}", batch, seq_len, d_model, heads, d_model, layers)


OFFICIAL = (
    _official(1, 64, 128, 4, 128),
    _official(2, 1, 128, 4, 128),
    _official(3, 4, 128, 4, 128),
    _official(4, 16, 128, 4, 128),
    _official(5, 128, 128, 4, 128),
    _official(6, 10000, 128, 4, 128),
    _official(7, 64, 32, 4, 128),
    _official(8, 64, 1024, 4, 128),
    _official(9, 64, 128, 1, 128),
    _official(10, 64, 128, 2, 128),
    _official(11, 64, 128, 16, 128),
    _official(12, 64, 128, 4, 32),
    _official(13, 64, 128, 4, 1024),
    _official(14, 32, 1024, 16, 100000, layers=2),
)

# The same fourteen, each dimension cut until a laptop's CPU runs the whole suite in minutes.
# What makes a shape special (its batch, head count, width or length against the others) is kept.
OFFICIAL_SMALL = (
    Shape("c01", 8, 32, 64, 4, 64, 4),
    Shape("c02", 1, 32, 64, 4, 64, 4),
    Shape("c03", 2, 32, 64, 4, 64, 4),
    Shape("c04", 4, 32, 64, 4, 64, 4),
    Shape("c05", 16, 32, 64, 4, 64, 4),
    Shape("c06", 256, 32, 64, 4, 64, 4),
    Shape("c07", 8, 32, 32, 4, 32, 4),
    Shape("c08", 8, 32, 256, 4, 256, 4),
    Shape("c09", 8, 32, 64, 1, 64, 4),
    Shape("c10", 8, 32, 64, 2, 64, 4),
    Shape("c11", 8, 32, 64, 16, 64, 4),
    Shape("c12", 8, 8, 64, 4, 64, 4),
    Shape("c13", 8, 256, 64, 4, 64, 4),
    Shape("c14", 2, 512, 128, 16, 128, 2),
)

TINY = (
    Shape("t01", 2, 16, 32, 4, 32, 2),
    Shape("t02", 3, 17, 24, 3, 40, 1, causal=False),
    Shape("t03", 4, 19, 32, 2, 32, 2, padding_ratio=0.5),
    Shape("t04", 3, 16, 32, 4, 32, 1, causal=False, padding_ratio=0.5),
    Shape("t05", 8, 16, 32, 4, 32, 2),
)

# What a kernel is likely to get wrong: lengths, heads and batches that fit no tile, padding, and inputs that
# are hard on the arithmetic.
STRESS = (
    *(
        Shape(f"x{number:02d}", 16, 96, 64, 4, 64, 2, padding_ratio=ratio)
        for number, ratio in enumerate((0.1, 0.3, 0.5, 0.7, 0.9), start=1)
    ),
    *(
        Shape(f"x{number:02d}", 4, seq_len, 64, 4, 64, 2)
        for number, seq_len in enumerate((1, 31, 127, 129, 257), start=6)
    ),
    Shape("x11", 1, 65, 64, 4, 64, 2),
    Shape("x12", 4, 64, 96, 3, 96, 2),
    Shape("x13", 4, 64, 64, 8, 64, 2),
    Shape("x14", 4, 64, 120, 3, 72, 2),
    Shape("x15", 4, 64, 160, 2, 160, 2),
    Shape("x16", 8, 100, 64, 4, 64, 2, causal=False, padding_ratio=0.5),
    *(
        Shape(f"x{number:02d}", 8, 64, 128, 4, 128, 4, inputs=inputs)
        for number, inputs in enumerate(("small", "large", "offset", "outliers", "near_zero"), start=17)
    ),
    Shape("x22", 8, 64, 128, 4, 128, 4, padding_ratio=0.5, inputs="offset"),
)

SHAPES = {shape.key: shape for shape in (*OFFICIAL, *OFFICIAL_SMALL, *TINY, *STRESS)}
