"""A contest entry as a package: the model here, its parts in modules beside."""

from .transformer import UserOptimizedTransformer

__all__ = ["UserOptimizedTransformer"]
