"""A stored kernel's order and RUN: read, and replaced with every other byte left as it is."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from builder.errors import UsageError
from builder.kernel import literal
from harness.events import Order, from_plain

ORDER, RUN, FILES = "ORDER", "RUN", "FILES"
EMPTY_RUN = "{}"  # what a built kernel holds until it is pushed

_UNREADABLE = (
    OSError,
    ValueError,
    SyntaxError,
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    RecursionError,
    StopIteration,
)


def texts_of(kernel: Path) -> dict[str, str]:
    """Return the texts that a stored kernel assigns to ORDER and RUN. UsageError when it has none."""
    try:
        found = _assigned(_code_of(kernel))
        return {name: str(ast.literal_eval(node)) for name, node in found.items()}
    except _UNREADABLE as problem:
        raise _unreadable(kernel, problem) from problem


def order_of(kernel: Path) -> Order:
    """Return the order that a stored kernel carries out. UsageError when it has none."""
    try:
        return from_plain(Order, json.loads(texts_of(kernel)[ORDER]))
    except _UNREADABLE as problem:
        raise _unreadable(kernel, problem) from problem


def files_of(kernel: Path) -> dict[str, bytes]:
    """Return the files that a stored kernel carries. UsageError when it has none."""
    try:
        code = _code_of(kernel, FILES)
        node = _assigned(code, (FILES,))[FILES]
        return {str(name): str(text).encode() for name, text in ast.literal_eval(node).items()}
    except _UNREADABLE as problem:
        raise _unreadable(kernel, problem) from problem


def with_texts(kernel: Path, texts: Mapping[str, str]) -> str:
    """Return a stored kernel's text with other texts for ORDER or RUN, all else byte for byte."""
    try:
        content = kernel.read_text(encoding="utf-8")
        if kernel.suffix != ".ipynb":
            return _replaced(content, texts)
        plain = json.loads(content)
        cell = _cell(plain, ORDER)
        cell["source"] = _replaced(cell["source"], texts)
        return json.dumps(plain, indent=1) + "\n"
    except _UNREADABLE as problem:
        raise _unreadable(kernel, problem) from problem


def sha256_of(kernel: Path) -> str:
    """Return the SHA-256 of a stored kernel with an empty RUN: what it had when it was built."""
    return hashlib.sha256(with_texts(kernel, {RUN: EMPTY_RUN}).encode()).hexdigest()


def _unreadable(kernel: Path, problem: Exception) -> UsageError:
    return UsageError(f"the kernel {kernel} cannot be read: {problem!r}", "push the sweep anew")


def _code_of(kernel: Path, holds: str = ORDER) -> str:
    """Return the code of a script, or of the cell of a notebook that assigns to a name."""
    content = kernel.read_text(encoding="utf-8")
    return str(_cell(json.loads(content), holds)["source"]) if kernel.suffix == ".ipynb" else content


def _cell(plain: Any, holds: str) -> dict[str, Any]:
    """Find a cell by what it assigns to: a service that keeps notebooks may give cells other ids."""
    cells: list[dict[str, Any]] = plain["cells"]
    for cell in cells:
        cell["source"] = "".join(cell["source"])
    return next(cell for cell in cells if f"\n{holds} = " in cell["source"])


def _assigned(code: str, names: Sequence[str] = (ORDER, RUN)) -> dict[str, ast.expr]:
    statements = [node for node in ast.parse(code).body if isinstance(node, ast.Assign)]
    found = {ast.unparse(node.targets[0]): node.value for node in statements}
    return {name: found[name] for name in names}


def _replaced(code: str, texts: Mapping[str, str]) -> str:
    """Put literals of `texts` where the code assigns to their names."""
    data = code.encode()
    starts = [0]
    for line in data.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    last_first = sorted(_assigned(code).items(), key=lambda item: -item[1].lineno)
    for name, node in last_first:
        if name in texts and node.end_lineno is not None and node.end_col_offset is not None:
            begin = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset
            data = data[:begin] + literal(texts[name]).encode() + data[end:]
    return data.decode()
