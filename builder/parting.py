"""The next part of a run: a folder with its spec and its kernel, there whole or not at all."""

from __future__ import annotations

import ast
import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from builder import announcing, places, runs
from builder.backends import Limits
from builder.build import write_build
from builder.bundle import Bundle, digest
from builder.errors import UsageError
from builder.runs import Run
from builder.spec import RunSpec
from harness.events import Order, RunRef, from_plain, to_plain
from harness.shapes import Case

Write = Callable[[Run, int, RunSpec, Bundle], None]

_ANEW = "push the sweep anew"


def add(run: Run, part: int, spec: RunSpec, bundle: Bundle) -> None:
    """Put part `part` on disk: `spec` is its own, with fewer cases than the run's, or at another place.

    Raises RefusedHereError as `write_build` does.
    """
    draft = run.folder / "parts" / f".new-{part}"
    shutil.rmtree(draft, ignore_errors=True)
    write(draft, part, spec, bundle)
    draft.rename(run.part(part))


def write(folder: Path, part: int, spec: RunSpec, bundle: Bundle) -> None:
    """Write a part's spec and kernel into a folder that nobody looks at yet."""
    write_build(spec, folder, RunRef(spec.run_id, part, spec.git_commit, spec.git_dirty), bundle)
    runs.atomic_write(folder / "spec.json", json.dumps(to_plain(spec), indent=2) + "\n")


class Parts:
    """Adds the parts of a run, each with the files of its first one; `write` puts one on disk."""

    def __init__(self, run: Run, bundle: Bundle | None = None, write: Write = add) -> None:
        self._run, self._spec, self._write = run, run.spec, write
        self._bundle = bundle
        self._last = max(run.parts(), default=0)

    def add(self, place: str, cases: Iterable[Case], limits: Limits) -> int:
        """Put the next part on disk; return its number. UsageError when the first kernel was altered."""
        self._last += 1
        self._bundle = self._bundle or stored_bundle(self._run.part(1))
        self._write(self._run, self._last, part_spec(self._spec, place, cases, limits), self._bundle)
        return self._last


def part_spec(spec: RunSpec, place: str, cases: Iterable[Case], limits: Limits) -> RunSpec:
    """Return what one part of a run is asked for."""
    own = replace(
        spec,
        cases=tuple(cases),
        backend=place,
        accelerator=places.accelerator_of(place, spec),
        parts=0,
        budget_s=0.0,
        reuse=False,
        left_out={},
        known={},
    )
    return replace(own, timeout_s=announcing.timeout_s(own, limits))


def stored_bundle(part: Path) -> Bundle:
    """Return the bundle that a part's kernel carries. UsageError when the kernel was altered."""
    try:
        tree = ast.parse((part / "kernel.py").read_text(encoding="utf-8"))
        facts = json.loads((part / "bundle.json").read_text(encoding="utf-8"))
        terms = from_plain(Order, json.loads(_assigned(tree, "ORDER"))).terms
        files = {str(name): str(text).encode() for name, text in _assigned(tree, "FILES").items()}
        intact = digest(files) == facts["bundle_sha256"] == terms.bundle_sha256
    except (OSError, SyntaxError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise UsageError(f"the kernel in {part} cannot be read: {problem!r}", _ANEW) from problem
    if not intact:
        raise UsageError(f"the kernel in {part} was altered", _ANEW)
    return Bundle(files, (), terms.model, terms.own_harness, terms.against)


def _assigned(tree: ast.Module, name: str) -> Any:
    """Return the literal that a module gives a name. KeyError when it gives it none."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise KeyError(name)
