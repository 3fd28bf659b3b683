"""What the arguments of a jitted function are where nobody says it: guessed, with a note, or asked for."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_MEMORY = ("load", "store", "atomic_", "make_block_ptr", "make_tensor_descriptor")
_REAL = re.compile(r"eps|scale|alpha|beta|slope|temperature|dropout|(^|_)p$", re.IGNORECASE)
_BLOCK = re.compile(r"BLOCK|TILE|CHUNK", re.IGNORECASE)
BLOCK = 64
_OPTIONS = ("num_warps", "num_stages", "num_ctas")


class UnknownError(Exception):
    """What cannot be compiled as it stands; `hint` says what to give."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class Settled:
    """Types and constants by argument, what is divisible by 16, and what of it was guessed."""

    types: dict[str, str]
    constants: dict[str, Any]
    aligned: Sequence[str]
    notes: Sequence[str]


def settle(name: str, function: Any, text: str, signature: dict[str, str], known: dict[str, Any]) -> Settled:
    """Return what a function is compiled with.

    Raises UnknownError for constants that nobody gave and that are no sizes of blocks, and for names that are
    no arguments.
    """
    arguments = [parameter.name for parameter in function.params]
    strangers = [key for key in (*signature, *known) if key not in arguments and key not in _OPTIONS]
    if strangers:
        raise UnknownError(f"{name} has no argument {strangers[0]!r}", f"it has: {', '.join(arguments)}")
    constants, guessed = _constants(name, function, known)
    pointers = pointers_of(text, name)
    element = "fp16" if "dot" in _methods(text, name) else "fp32"
    types = {}
    for argument in arguments:
        if argument not in constants:
            types[argument] = signature.get(argument) or _type(argument, pointers, element)
            if argument not in signature:
                guessed.append(f"{argument}={types[argument]}")
    aligned = [one for one, kind in types.items() if kind.startswith("*") or kind in ("i32", "i64")]
    notes = [f"guessed: {', '.join(guessed)}"] if guessed else []
    return Settled(types, constants, aligned, notes)


def _constants(name: str, function: Any, known: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Constants: as given, else their defaults, else, of blocks, a usual size."""
    constants: dict[str, Any] = {}
    guessed, missing = [], []
    for parameter in function.params:
        if parameter.name in known:
            constants[parameter.name] = known[parameter.name]
        elif parameter.is_constexpr and parameter.has_default:
            constants[parameter.name] = parameter.default
        elif parameter.is_constexpr and _BLOCK.search(parameter.name):
            constants[parameter.name] = BLOCK
            guessed.append(f"{parameter.name}={BLOCK}")
        elif parameter.is_constexpr:
            missing.append(parameter.name)
    if missing:
        example = ",".join(f"{one}=…" for one in missing)
        said = f"{name} has constants that cannot be guessed: {', '.join(missing)}"
        raise UnknownError(said, f"give them: --constants {example}")
    return constants, guessed


def _type(argument: str, pointers: set[str], element: str) -> str:
    if argument in pointers or re.search(r"ptr$|^ptr_|_desc$", argument, re.IGNORECASE):
        return f"*{element}"
    return "fp32" if _REAL.search(argument) else "i32"


def pointers_of(text: str, name: str) -> set[str]:
    """Return the names whose addresses are read or written: the leftmost of a sum that is one."""
    body = _function(text, name)
    found = {
        leftmost(node.args[0])
        for node in ast.walk(body)
        if isinstance(node, ast.Call) and node.args and _name(node).startswith(_MEMORY)
    }
    assigned = [
        (target.id, leftmost(node.value))
        for node in ast.walk(body)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
    for _ in assigned:
        found |= {source for target, source in assigned if target in found}
    return found - {""}


def leftmost(node: ast.expr) -> str:
    """Return the name that a sum begins with, or nothing."""
    while isinstance(node, ast.BinOp):
        node = node.left
    return node.id if isinstance(node, ast.Name) else ""


def called(text: str) -> set[str]:
    """Return the names that the file's functions call."""
    return {_name(node) for node in ast.walk(_tree(text)) if isinstance(node, ast.Call)}


def _methods(text: str, name: str) -> set[str]:
    return {_name(node) for node in ast.walk(_function(text, name)) if isinstance(node, ast.Call)}


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _function(text: str, name: str) -> ast.AST:
    return next((node for node in _functions(text) if node.name == name), ast.Module([], []))


def _functions(text: str) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(_tree(text)) if isinstance(node, ast.FunctionDef))


@functools.cache
def _tree(text: str) -> ast.Module:
    return ast.parse(text)
