"""The levers: environment variables `LEVER_*` that change how the model runs with no code edit.

They are read here and nowhere else, when a model is built. Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from . import router

PREFIX = "LEVER_"


@dataclass(frozen=True)
class Lever:
    """One environment variable, what it may hold and what it means; `counts` allows whole numbers from 1."""

    name: str
    values: tuple[str, ...]
    default: str
    about: str
    counts: bool = False

    def read(self, environ: Mapping[str, str]) -> str:
        """The lever's value. Raises ValueError, with the allowed values, for any other."""
        value = environ.get(self.name, self.default)
        number = self.counts and value.isascii() and value.isdigit() and int(value) > 0
        if value in self.values or number:
            return value
        allowed = [*self.values, *(["a whole number from 1"] if self.counts else [])]
        raise ValueError(f"{self.name}={value!r} is not one of: {', '.join(allowed)}")


ROUTE = Lever("LEVER_ROUTE", router.names(), router.AUTO, "which route runs the model")
QKV = Lever(
    "LEVER_QKV", ("fused", "separate"), "fused", "one matrix product for q, k and v, or three (not in eager)"
)
RESIDUAL = Lever(
    "LEVER_RESIDUAL", ("inplace", "new"), "inplace", "add to the residual in place or not (not in eager)"
)
CHUNK = Lever("LEVER_CHUNK", ("auto",), "auto", "rows of a batch that run at once", counts=True)
TOKENS = Lever(
    "LEVER_TOKENS",
    ("auto",),
    "auto",
    "tokens of a sequence that run at once (cuda)",
    counts=True,
)
PRECISION = Lever(
    "LEVER_PRECISION",
    ("safe", "fast", "fp16"),
    "safe",
    "operands of products on tensor cores (stack, wide, cuda)",
)
PRODUCTS = Lever("LEVER_PRODUCTS", ("triton", "cublas"), "triton", "who computes matrix products (wide)")
ATTENTION = Lever(
    "LEVER_ATTENTION",
    ("triton", "torch"),
    "triton",
    "who computes attention of whole float16 operands (wide)",
)
GRAPH = Lever("LEVER_GRAPH", ("auto", "on", "off"), "auto", "replay launches as a CUDA graph (wide, cuda)")

LEVERS = (ROUTE, QKV, RESIDUAL, CHUNK, TOKENS, PRECISION, PRODUCTS, ATTENTION, GRAPH)


@dataclass(frozen=True)
class Settings:
    """What the levers say; `chunk` and `tokens` are None when they are planned from free memory.

    `given` are the levers that were set, as they were.
    """

    route: str
    fused_qkv: bool
    inplace_residual: bool
    chunk: int | None
    tokens: int | None
    precision: str
    products: str
    attention: str
    graph: str
    given: Mapping[str, str] = field(default_factory=dict, compare=False)

    def under(self, levers: Mapping[str, str]) -> Settings:
        """The same under further levers; what was set by hand goes before them."""
        return read({**levers, **self.given}) if levers else self


def read(environ: Mapping[str, str] = os.environ) -> Settings:
    """Read every lever. Raises ValueError, with the known ones, for an unknown `LEVER_` name or value."""
    known = [lever.name for lever in LEVERS]
    for name in environ:
        if name.startswith(PREFIX) and name not in known:
            raise ValueError(f"unknown lever {name}; known are: {', '.join(known)}")
    chunk, tokens = CHUNK.read(environ), TOKENS.read(environ)
    return Settings(
        route=ROUTE.read(environ),
        fused_qkv=QKV.read(environ) == "fused",
        inplace_residual=RESIDUAL.read(environ) == "inplace",
        chunk=None if chunk == "auto" else int(chunk),
        tokens=None if tokens == "auto" else int(tokens),
        precision=PRECISION.read(environ),
        products=PRODUCTS.read(environ),
        attention=ATTENTION.read(environ),
        graph=GRAPH.read(environ),
        given={name: value for name, value in environ.items() if name.startswith(PREFIX)},
    )
