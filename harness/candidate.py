"""Find the model that is measured: its class, its weight copy, its file.

Self-contained: `ferry build --for-script` puts a copy of this file beside somebody's own benchmark script.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from torch import nn

CONTRACT = "torch_transformer_benchmark"
CLASS_NAMES = ("UserOptimizedTransformer", "OptimizedTransformer")


class CandidateError(ImportError):
    """There is no model to measure where one should be."""


@dataclass(frozen=True)
class Candidate:
    """A model class to be called with a config, how weights get into it, and the file it came from."""

    model_class: Callable[..., nn.Module]
    copy_model_weights: Callable[..., None]
    file: Path


def load_contract(own_harness: bool) -> ModuleType:
    """Return the module with the contract's names: somebody's bundled harness, or gpuferry's.

    From then on `import torch_transformer_benchmark` gives that module.
    """
    if own_harness:
        return importlib.import_module(CONTRACT)
    return sys.modules.setdefault(CONTRACT, importlib.import_module("harness.contract"))


def load_candidate(module_name: str) -> Candidate:
    """Import a module and return the model in it.

    The class is `UserOptimizedTransformer`, else `OptimizedTransformer`, and never the contract's own stub;
    the weight copy is the contract's unless the module has one. Raises CandidateError when there is no such
    module or no such class in it, and whatever the import raises.
    """
    file = locate(module_name)
    contract = sys.modules.get(CONTRACT) or load_contract(own_harness=False)
    module = importlib.import_module(module_name)
    classes = [getattr(module, name, None) for name in CLASS_NAMES]
    stub = getattr(contract, CLASS_NAMES[0], None)
    model_class = next((found for found in classes if found not in (None, stub)), None)
    if model_class is None:
        raise CandidateError(f"{file} defines neither {' nor '.join(CLASS_NAMES)}")
    return Candidate(
        model_class, getattr(module, "copy_model_weights", None) or contract.copy_model_weights, file
    )


def locate(module_name: str) -> Path:
    """Return the file that an import would run, `__init__.py` for a package; it is not run.

    Raises CandidateError when there is none.
    """
    spec = importlib.util.find_spec(module_name)
    if spec is None or spec.origin is None:
        why = "no such module" if spec is None else "a folder without __init__.py"
        raise CandidateError(f"there is no model {module_name}: {why}")
    return Path(spec.origin)


def make_importable(path: Path) -> str:
    """Put a file, or a package's folder, and what stands beside it on the search path; return its name.

    Raises CandidateError when it is not there or cannot be imported by that name.
    """
    path = path.resolve()
    path = path.parent if path.name == "__init__.py" else path
    file = path / "__init__.py" if path.is_dir() else path
    if not file.is_file():
        raise CandidateError(f"there is no model file {file}")
    if not path.stem.isidentifier():
        raise CandidateError(f"{path.stem!r} cannot be imported as a module; rename {path}")
    sys.path.insert(0, str(path.parent))
    if (taken_by := locate(path.stem)) != file:
        raise CandidateError(f"the name of {path} is taken by {taken_by}; rename it")
    return path.stem


def origin(file: Path) -> str:
    """Return a model's file and the sha256 of its bytes.

    For a package, its folder and the sha256 of the list that `sha256sum` prints for all of its files, sorted
    by their paths from the folder's parent.
    """
    if file.name != "__init__.py":
        return f"{file} sha256={_sha256(file.read_bytes())}"
    folder = file.parent
    names = sorted(path.relative_to(folder.parent).as_posix() for path in folder.rglob("*") if path.is_file())
    names = [name for name in names if "/__pycache__/" not in name and "/." not in name]
    listing = "".join(f"{_sha256((folder.parent / name).read_bytes())}  {name}\n" for name in names)
    return f"{folder} sha256={_sha256(listing.encode())} ({len(names)} files)"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
