"""A folder in which somebody's own benchmark script, byte for byte, measures a model of ours or theirs.

The folder needs Python and torch. `run.py` there stands for the script: same flags, same exit code.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from builder.bundle import (
    CONTRACT,
    ON_DEVICE,
    gather_model,
    gather_with_neighbours,
    refuse_unmet,
    refuse_without,
)
from builder.errors import RefusedHereError, UsageError
from builder.imports import STANDARD
from builder.templating import ROOT, render

# What `run.py` replaces, and what it calls.
SCRIPT_NAMES = ("UserOptimizedTransformer", "copy_model_weights", "main")


def write_folder(
    script: Path, target: Path, model_path: Path | None, device_packages: Collection[str] = ()
) -> list[str]:
    """Write the folder whole or not at all; return the names of its files.

    `model_path` is a file or a package, None for gpuferry's own model. Raises UsageError when `script` is no
    file or `target` is there and not empty, RefusedHereError for whatever could not run in that folder.
    """
    if not script.is_file():
        raise UsageError(f"there is no script {script}", "give the path of a Python file")
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise UsageError(f"{target} is there already and is no empty folder", "name a new folder with -o")
    files = _collect(script, model_path, device_packages)
    with new_folder(target) as draft:
        for name, data in files.items():
            path = draft / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return sorted(files)


def _collect(script: Path, model_path: Path | None, device_packages: Collection[str]) -> dict[str, bytes]:
    present = STANDARD | ON_DEVICE | set(device_packages)
    scripts = gather_with_neighbours(script.absolute(), present)
    refuse_without(next(source for source in scripts.files if source.name == script.name), SCRIPT_NAMES, all)
    module, model = gather_model(str(model_path or ""), present)
    refuse_unmet(scripts + model, present | {CONTRACT, script.stem})
    model_files = {source.name: source.data for source in model.files}
    entry = f"{module}.py" if f"{module}.py" in model_files else module
    own = {
        "run.py": render("run.py.j2", script=script.name, model=entry).encode(),
        "ferry_candidate.py": (ROOT / "harness" / "candidate.py").read_bytes(),
    }
    return _merge({source.name: source.data for source in scripts.files}, model_files, own)


def _merge(*groups: Mapping[str, bytes]) -> dict[str, bytes]:
    """Lay groups of files into one folder. RefusedHereError when two of them mean different modules."""
    for one, other in itertools.combinations(groups, 2):
        for module in {_module(name) for name in one} & {_module(name) for name in other}:
            if _files_of(module, one) != _files_of(module, other):
                raise RefusedHereError(f"the folder would hold two modules called {module}", "rename one")
    return {name: data for group in groups for name, data in group.items()}


def _module(name: str) -> str:
    return name.partition("/")[0].removesuffix(".py")


def _files_of(module: str, group: Mapping[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in group.items() if _module(name) == module}


@contextlib.contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Give a folder beside the target to fill; it becomes the target at the end, or is gone after an error.

    Raises OSError when anything has come into the target meanwhile.
    """
    target = target.absolute()
    draft = target.with_name(f".{target.name}-{os.getpid()}.draft")
    draft.mkdir(parents=True)
    try:
        yield draft
        if target.exists():
            target.rmdir()
        draft.rename(target)
    except BaseException:
        shutil.rmtree(draft)
        raise
