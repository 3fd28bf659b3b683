"""A process in which Triton interprets its functions on the CPU instead of compiling them for a GPU.

Triton decides that when it is imported, and torch may import it at any time: hence a process of its own.
"""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from typing import Protocol, TypeVar

import pytest

Result = TypeVar("Result")


class Interpreter(Protocol):
    """Calls a function of a test module, by name, in the other process."""

    def __call__(self, function: Callable[..., Result], /, *args: object) -> Result:
        """What it returns; raises what it raises."""


@pytest.fixture(scope="module")
def interpreter() -> Iterator[Interpreter]:
    """One such process for a module's tests; without Triton, or its interpreter's NumPy, they are skipped."""
    for package in ("triton", "numpy"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed here")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, initializer=_begin) as pool:

        def call(function: Callable[..., Result], /, *args: object) -> Result:
            return pool.submit(function, *args).result()

        yield call


def _begin() -> None:
    os.environ["TRITON_INTERPRET"] = "1"
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    import torch

    torch.set_num_threads(1)
