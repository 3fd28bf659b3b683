"""A launch that is started again: what it hands to Triton's launcher, and when it asks Triton anew."""

from __future__ import annotations

import torch
from torch import Tensor

from model.ops.launching import Compiled, Compiler, Launch


class Variant:
    """A compiled variant that notes what it is started with."""

    function = 77
    packed_metadata: object = "metadata"

    def __init__(self) -> None:
        self.started: list[tuple[object, ...]] = []

    def run(self, *args: object) -> None:
        """Note them."""
        self.started.append(args)


class Function:
    """A jitted function of two tensors, a number and two constants."""

    arg_names = ["x_ptr", "y_ptr", "rows", "WIDTH", "CAUSAL"]  # noqa: RUF012 - as Triton has it

    def __init__(self) -> None:
        self.variant = Variant()
        self.asked: list[tuple[object, ...]] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Compiler:
        """Compile and start."""

        def start(*args: object, **constants: object) -> Compiled | None:
            self.asked.append((grid, args, constants))
            return self.variant

        return start


def tensors() -> tuple[Tensor, Tensor, Tensor]:
    """Two at aligned addresses, and one that is not."""
    memory = torch.zeros(64)
    start = -memory.data_ptr() % 16 // 4
    return memory[start : start + 8], memory[start + 16 : start + 24], memory[start + 33 : start + 40]


def test_the_second_start_hands_over_addresses_and_all_arguments_in_order() -> None:
    """Grid, stream, variant, no hooks, the addresses, then numbers and constants as the function has them."""
    function = Function()
    launch = Launch(function, 6, (128,), CAUSAL=True, WIDTH=32, num_warps=4)
    x, y, _ = tensors()
    launch(5, x, y)
    launch(5, x, y)
    assert function.asked == [((6,), (x, y, 128), {"CAUSAL": True, "WIDTH": 32, "num_warps": 4})]
    fixed = (6, 1, 1, 5, 77, "metadata", None, None, None)
    assert function.variant.started == [(*fixed, x.data_ptr(), y.data_ptr(), 128, 32, True)]


def test_an_address_that_is_not_aligned_is_left_to_triton() -> None:
    """It needs another variant, which Triton finds; the one for aligned addresses is kept."""
    function = Function()
    launch = Launch(function, 1, (128,), CAUSAL=True, WIDTH=32)
    x, y, odd = tensors()
    launch(0, odd, y)
    launch(0, x, y)
    launch(0, odd, y)
    launch(0, x, y)
    assert len(function.asked) == 3 and len(function.variant.started) == 1


def test_a_launcher_that_takes_other_arguments_is_left_alone() -> None:
    """Where a newer Triton's launcher refuses them, each start goes through Triton, and none is lost."""

    class Changed(Variant):
        def run(self, *args: object) -> None:
            raise TypeError("function takes exactly 12 arguments")

    function = Function()
    function.variant = Changed()
    launch = Launch(function, 1, (128,), CAUSAL=True, WIDTH=32)
    x, y, _ = tensors()
    for _ in range(3):
        launch(0, x, y)
    assert len(function.asked) == 3
