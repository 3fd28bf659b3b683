"""What gpuferry's own model declares, read from its text: it imports torch, and the host never does."""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODEL = Path(__file__).parent.parent / "model"


@dataclass(frozen=True)
class DeclaredRoute:
    """A name that `--route` takes. `serves`: choice → the levers under which the route serves it."""

    name: str
    about: str
    serves: dict[str, dict[str, str]]


@functools.cache
def choices() -> dict[str, str]:
    """Return the names that choose among routes, each with what it stands for."""
    found: dict[str, str] = _literal(MODEL / "router.py", "CHOICES")
    return found


@functools.cache
def files() -> tuple[DeclaredRoute, ...]:
    """Return the routes that are files, sorted by name; a file's first line says what it does."""
    return tuple(_route(path) for path in sorted((MODEL / "routes").glob("[a-z]*.py")))


def levers() -> list[str]:
    """Return the names of the levers."""
    return re.findall(r'\bLever\(\s*"(LEVER_\w+)"', (MODEL / "levers.py").read_text(encoding="utf-8"))


def _route(path: Path) -> DeclaredRoute:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return DeclaredRoute(path.stem, text.partition("\n")[0].rstrip("."), _literal(path, "SERVES"))


def _literal(path: Path, name: str) -> Any:
    """The value of a module's constant, a literal; LookupError where there is none."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name and node.value:
            return ast.literal_eval(node.value)
    raise LookupError(f"{path} declares no {name}")
