"""What an op becomes on a card that is not here: compiled in a process of its own, its machine code read.

Triton, torch and the file itself are imported in that process alone: `templates/inspect`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from builder import machinecode
from builder.errors import InfrastructureError, UsageError
from builder.machinecode import CARDS, SHARED_KIB, Usage
from builder.templating import ROOT

CHILD = "templates.inspect.examine"
SECONDS = 1800
_TRITON_DROPPED = "Triton from 3.3 on emits no tensor-core instruction below sm_80"


@dataclass(frozen=True)
class Question:
    """What is to be inspected: a file, or, without one, what our own routes launch at these official shapes.

    `signature` are types, by `name=type` or in order; `functions` without which all are meant.
    """

    archs: Sequence[int]
    file: Path | None = None
    functions: Sequence[str] = ()
    signature: Sequence[str] = ()
    constants: dict[str, Any] = field(default_factory=dict)
    shapes: Sequence[str] = ()


@dataclass(frozen=True)
class Found:
    """One function on one architecture; `usage` is None where it does not compile, and `error` says why.

    `shared` are a block's bytes, `dots` the matrix products of a Triton function (0 in CUDA C++), `label`
    where our own routes use it.
    """

    function: str
    arch: int
    usage: Usage | None = None
    shared: int = 0
    dots: int = 0
    label: str = ""
    notes: Sequence[str] = ()
    error: str = ""

    @property
    def tensor(self) -> int:
        """Tensor-core instructions."""
        return sum(self.usage.tensor.values()) if self.usage else 0

    @property
    def fits(self) -> bool:
        """Whether a block's shared memory is there."""
        return self.shared <= SHARED_KIB.get(self.arch, sys.maxsize) * 1024

    def wrong(self) -> str:
        """Return why it cannot run there, or nothing."""
        if self.error:
            return f"does not compile for sm_{self.arch}: {self.error}"
        if not self.fits:
            most = SHARED_KIB[self.arch]
            took = f"{self.shared / 1024:.4g} KiB of shared memory a block"
            return f"takes {took}, and {self.card} has {most}: it will not start there"
        return ""

    def broken(self) -> str:
        """Return which of the limits that our own ops keep this one breaks, or nothing."""
        if wrong := self.wrong():
            return wrong
        assert self.usage
        if (self.dots or self.function in MULTIPLIES) and not self.tensor:
            return "multiplies matrices on scalar units"
        stack, hot = SPILLED.get(self.function, (0, 0))
        if self.usage.stack > stack:
            return f"spills {self.usage.stack} bytes a thread, more than {stack}"
        if self.usage.hot_spills > hot:
            return f"spills by {self.usage.hot_spills} instructions in its innermost loops, more than {hot}"
        return ""

    @property
    def card(self) -> str:
        """A card of this architecture, in words."""
        return CARDS.get(self.arch, f"sm_{self.arch}")


# What our own ops keep to: no bytes of stack a thread, and in innermost loops no instruction that spills, but
# so many of those named: compilers leave some now and then, and heads of 256 in halves fill all registers.
SPILLED = {
    "stack_kernel": (1024, 4),
    "matmul_kernel": (256, 4),
    "attention_kernel": (384, 4),
    "attention": (64, 28),
}
MULTIPLIES = frozenset({"attention"})  # of CUDA C++, where no `tl.dot` tells it


def inspect(question: Question) -> Iterator[Found]:
    """Yield each function on each architecture, as it is compiled.

    Raises UsageError for a file, a function or arguments that cannot be, and where Triton is missing.
    """
    machinecode.tools()
    if question.file and not question.file.is_file():
        raise UsageError(f"there is no file {question.file}", "name a .py with Triton functions, or a .cu")
    with tempfile.TemporaryDirectory(prefix="ferry-inspect-") as folder:
        for answer in _answers(question, Path(folder)):
            if "refused" in answer:
                raise UsageError(answer["refused"], answer["hint"])
            yield from read(answer)


def read(answer: dict[str, Any]) -> Iterator[Found]:
    """Yield what an answer of the compiling process tells: of CUDA C++ perhaps several functions, or none."""
    told = Found(**{each.name: answer[each.name] for each in fields(Found) if each.name in answer})
    if told.error:
        yield told
        return
    mangled = answer["mangled"]
    for name, usage in machinecode.read(Path(answer["cubin"]).read_bytes()).items():
        if name == mangled or f"{len(mangled)}{mangled}" in name:  # C++ writes a name's length before it
            # What is asked for at the launch stands in no cubin; Triton's figure has the static part, too.
            yield replace(told, function=name, usage=usage, shared=max(told.shared, usage.shared))


def _answers(question: Question, folder: Path) -> Iterator[dict[str, Any]]:
    order = {
        "file": str(question.file.resolve()) if question.file else "",
        "archs": list(question.archs),
        "folder": str(folder),
        "functions": list(question.functions),
        "signature": list(question.signature),
        "constants": question.constants,
        "shapes": list(question.shapes),
    }
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    environment.pop("TRITON_INTERPRET", None)  # nothing is compiled then
    with tempfile.TemporaryFile("w+") as said:
        child = subprocess.Popen(
            [sys.executable, "-m", CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            env=environment,
        )
        with child:
            try:
                assert child.stdin and child.stdout
                child.stdin.write(json.dumps(order))
                child.stdin.close()
                yield from map(json.loads, child.stdout)
                code = child.wait(SECONDS)
            finally:
                child.kill()
        if code:
            said.seek(0)
            raise InfrastructureError(
                f"the process that compiles ended with code {code}", _tail(said.read()) or "it said nothing"
            )


def _tail(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return f"it said: {lines[-1]}" if lines else ""


def sentence(found: Found) -> str:
    """Return one sentence on what matters most of a function there."""
    if wrong := found.wrong():
        return f"{found.function} {wrong}"
    usage = found.usage
    assert usage
    where = f"on {found.card}"
    hot = usage.hot_spills
    spilled = f"; {hot} instructions of its innermost loops spill registers to memory" if hot else ""
    if found.dots and not found.tensor:
        why = f": {_TRITON_DROPPED}" if found.arch < 80 else ": its operands have no tensor-core product"
        several = f"these {found.dots} `tl.dot` run" if found.dots > 1 else "this `tl.dot` runs"
        return f"{several} on scalar units {where}{why}{spilled}"
    if found.tensor:
        names = ", ".join(f"{count} {name}" for name, count in usage.tensor.items())
        return f"runs on tensor cores {where} ({names}){spilled}"
    return f"has no tensor-core instruction {where} and no `tl.dot`{spilled}"
