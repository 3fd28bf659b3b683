"""The drop-in transformer of the contest: `from model import OptimizedTransformer`.

The folder stands alone: standard library and torch, nothing else of this repository. Importing the package,
`model.levers` or `model.router` does not import torch, so that a tool can list levers and routes anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .transformer import OptimizedTransformer, UserOptimizedTransformer

__all__ = ["OptimizedTransformer", "UserOptimizedTransformer"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import transformer

    return getattr(transformer, name)
