"""What our own routes launch at the contest's shapes: the ops run on tensors without memory, and it is noted.

So each variant that is inspected is one that a route really compiles on such a card, by the same code.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from harness.baseline import TransformerConfig
from harness.shapes import OFFICIAL, SHAPES, Shape
from model import levers, router
from model.packing import Packed
from model.weights import Weights
from templates.inspect.compiling import CudaWork, Work

os.environ.pop("TRITON_INTERPRET", None)
PROCESSORS = {75: 40, 80: 108, 86: 84, 89: 58, 90: 132}
CHOICES = ("safe", "fast", "fp16")
TYPES = {
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.bool: "i1",
    torch.int32: "i32",
    torch.int64: "i64",
}


@dataclass
class Variant:
    """A launch as recorded, and where it is used: shapes by choice."""

    work: Work | CudaWork
    uses: dict[str, list[str]] = field(default_factory=dict)

    def label(self) -> str:
        """As `safe 1,3 fp16 1`."""
        return " ".join(f"{choice} {','.join(shapes)}" for choice, shapes in self.uses.items())


def works(order: dict[str, Any]) -> Iterator[Work | CudaWork]:
    """Yield each variant once for every architecture, with the shapes whose route launches it."""
    wanted = order["shapes"] or [shape.key.removeprefix("s") for shape in OFFICIAL]
    for arch in order["archs"]:
        variants: dict[str, Variant] = {}
        for number in wanted:
            shape = SHAPES[f"s{int(number):02}"]
            for choice in CHOICES:
                for work in recorded(shape, choice, arch):
                    variant = variants.setdefault(work.key, Variant(work))
                    variant.uses.setdefault(choice, [])
                    if number not in variant.uses[choice]:
                        variant.uses[choice].append(number)
        for variant in variants.values():
            yield replace(variant.work, label=variant.label())


def recorded(shape: Shape, choice: str, arch: int) -> Iterator[Work | CudaWork]:
    """Yield what the route launches that the router's rule takes first there; nothing where it is torch's."""
    problem = router.Problem(
        "", divmod(arch, 10), "float32", False, shape.batch, shape.seq_len, shape.d_model,
        shape.heads, shape.ffn_dim, shape.layers, shape.causal,
    )  # fmt: skip
    for name in router.rule(choice, problem)[:1]:
        route: Any = router.load(name)
        if not hasattr(route, "make"):
            return
        sizes = (shape.d_model, shape.heads, shape.ffn_dim, shape.layers, shape.causal)
        config = TransformerConfig(1, 1, *sizes)
        settings = levers.read({"LEVER_ROUTE": name, **router.served(name, choice)})
        with torch.inference_mode(), a_card(arch), recording() as launched:
            with torch.device("meta"):
                weights, x = Weights(config), torch.empty(shape.batch, shape.seq_len, shape.d_model)
            route.make(packed(name, config), weights, settings)(x, None)
        for launch in launched:
            yield replace(launch, arch=arch) if isinstance(launch, CudaWork) else _work(*launch, arch)


@functools.cache
def packed(route: str, config: TransformerConfig) -> Packed:
    """The weights as a route takes them, of no value and without memory."""
    weights = Weights(config)
    for parameter in weights.parameters():
        torch.nn.init.constant_(parameter, 0.01)
    found: Any = router.load(route)
    whole: Packed = found.pack(weights)
    return replace(whole, **{each.name: _on_meta(getattr(whole, each.name)) for each in fields(whole)})


def _on_meta(value: object) -> Any:
    return tree_map(lambda leaf: leaf.to("meta") if isinstance(leaf, Tensor) else leaf, value)


@contextmanager
def a_card(arch: int) -> Iterator[None]:
    """Let the ops cut their work as for such a card."""
    import model.ops.wide  # noqa: F401 - so that the modules below are there

    answers = {"processors": PROCESSORS.get(arch, 100), "is_hopper": arch // 10 == 9}
    with ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            for question in answers if name.startswith("model.ops.") else ():
                if hasattr(module, question):
                    answer = functools.partial(lambda answer, *_: answer, answers[question])
                    stack.enter_context(mock.patch.object(module, question, answer))
        yield


Launched = tuple[Any, tuple[object, ...], dict[str, Any]] | CudaWork


@contextmanager
def recording() -> Iterator[list[Launched]]:
    """Note which jitted functions are launched, with their arguments, and launch none."""
    from triton.runtime.jit import JITFunction

    launched: list[Launched] = []

    def note(function: object, *args: object, **constants: object) -> None:
        beside = {name: value for name, value in constants.items() if name not in ("grid", "warmup")}
        launched.append((function, args, beside))

    def loader(*_: object) -> Any:
        def load(text: str, name: str, _: str, shared: int, defines: dict[str, int]) -> Any:
            return lambda *_: launched.append(CudaWork(text, defines, shared, 0, name))

        return load

    with (
        mock.patch.object(JITFunction, "run", note),
        mock.patch("model.ops.cuda_driver.loader", loader),
    ):
        yield launched


def _work(function: Any, arguments: tuple[object, ...], given: dict[str, Any], arch: int) -> Work:
    """What Triton would compile for these arguments: numbers are told apart as its launcher does."""
    names = function.arg_names
    constants = {name: value for name, value in given.items() if name in names}
    options = {name: value for name, value in given.items() if name not in names}
    types, aligned = {}, []
    for name, value in zip(names, arguments, strict=False):
        if isinstance(value, Tensor):
            types[name] = f"*{TYPES[value.dtype]}"
            aligned.append(name)
        elif isinstance(value, int) and value != 1:
            types[name] = "i32" if -(2**31) <= value < 2**31 else "i64"
            aligned += [name] * (value % 16 == 0)
        elif isinstance(value, float):
            types[name] = "fp32"
        else:
            constants[name] = value
    return Work(function, types, constants, aligned, options, arch, function.fn.__name__)
