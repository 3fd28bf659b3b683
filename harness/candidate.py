"""Find the model that is measured: its class, its weight copy, its file.

Self-contained: `ferry build --for-script` puts a copy of this file beside somebody's own benchmark script.
"""

from __future__ import annotations

import hashlib
import importlib
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

    @property
    def origin(self) -> str:
        """The file with its sha256; a package's folder with the sha256 of the list that `sha256sum` writes.

        The list has a line `<sha256>  <path>` for each file of the package, sorted by path.
        """
        if self.file.name != "__init__.py":
            return f"{self.file} sha256={_sha256(self.file.read_bytes())}"
        folder = self.file.parent
        files = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
        names = sorted(name for name in files if "__pycache__" not in name)
        listing = "".join(f"{_sha256(files[name].read_bytes())}  {name}\n" for name in names)
        return f"{folder} sha256={_sha256(listing.encode())} ({len(names)} files)"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


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
    the weight copy is the contract's unless the module has one. Raises CandidateError when there is neither
    class, and whatever the import raises.
    """
    contract = sys.modules.get(CONTRACT) or load_contract(own_harness=False)
    module = importlib.import_module(module_name)
    if module.__file__ is None:
        raise CandidateError(f"the model {module_name} is a folder without __init__.py")
    classes = [getattr(module, name, None) for name in CLASS_NAMES]
    stub = getattr(contract, CLASS_NAMES[0], None)
    model_class = next((found for found in classes if found not in (None, stub)), None)
    if model_class is None:
        raise CandidateError(f"{module.__file__} defines neither {' nor '.join(CLASS_NAMES)}")
    copy_model_weights = getattr(module, "copy_model_weights", contract.copy_model_weights)
    return Candidate(model_class, copy_model_weights, Path(module.__file__))


def load_candidate_at(path: Path) -> Candidate:
    """Import a file or a package, with what stands beside it importable, and return the model in it.

    Raises CandidateError when there is no such file or its name is taken, and all that `load_candidate` does.
    """
    path = path.resolve()
    file = path / "__init__.py" if path.is_dir() else path
    if not file.is_file():
        raise CandidateError(f"there is no model file {file}")
    sys.path.insert(0, str(path.parent))
    candidate = load_candidate(path.stem)
    if candidate.file.resolve() != file:
        raise CandidateError(f"the name of {path} is taken by {candidate.file}; rename it")
    return candidate
