"""The bundle: name and bytes of every file that the kernel carries, and its hash.

Harness and model lie beside the builder package. A model of the user's takes the place of ours, with the
modules that it imports and that lie beside it. Whatever can be known here about names, imports, syntax and
credentials is refused here, before anything is pushed.
"""

from __future__ import annotations

import functools
import hashlib
import keyword
import runpy
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from builder.errors import RefusedHereError
from builder.imports import STANDARD, Import, ImportRule
from builder.sources import (
    CACHE,
    CODE_SUFFIXES,
    Gathered,
    LeftOut,
    Source,
    find_module,
    gather,
    is_importable,
    read,
    refuse_link_outside,
)
from builder.spec import RunSpec
from builder.templating import ROOT, TEMPLATES

# The kernel checks itself with this very function.
digest: Callable[[Mapping[str, bytes]], str] = runpy.run_path(str(TEMPLATES / "bootstrap.py"))["digest"]

ON_DEVICE = frozenset({"torch", "triton", "numpy"})
CONTRACT = "torch_transformer_benchmark"
AGAINST = "against"  # the folder of a second model
RESERVED = ("harness", CONTRACT, AGAINST)

HARNESS_NAMES = (
    "TransformerConfig",
    "BaselineTransformer",
    "copy_model_weights",
    "generate_random_case",
    "compare_outputs",
    "warmup_model",
    "benchmark_once",
)
MODEL_NAMES = ("UserOptimizedTransformer", "OptimizedTransformer")

SHIM = b'''"""The contest script's name for the harness, so that a model written for the script runs."""

from harness.contract import *
'''
START = b'''"""Run by `python FOLDER`, so that the working folder is not on the path."""

import runpy

runpy.run_module("harness.driver", run_name="__main__", alter_sys=True)
'''


@dataclass(frozen=True)
class Bundle:
    """What the kernel carries: POSIX name → bytes, sorted.

    `model` is the module to import the model from, `against` a second one's, which has a folder of its own.
    """

    files: dict[str, bytes]
    left_out: tuple[LeftOut, ...]
    model: str
    own_harness: bool
    against: str = ""

    @functools.cached_property
    def sha256(self) -> str:
        """The hash of names and bytes of all files."""
        return digest(self.files)

    @property
    def harness_sha256(self) -> str:
        """The hash of the file that the user gave as harness, byte for byte; else of all files of ours."""
        if self.own_harness:
            return hashlib.sha256(self.files[f"{CONTRACT}.py"]).hexdigest()
        return digest({name: data for name, data in self.files.items() if name.startswith("harness/")})

    @property
    def model_sha256(self) -> str:
        """The hash of a model in one file, byte for byte; else of all files of the model."""
        files = {name: data for name, data in self.files.items() if is_of_model(name)}
        if len(files) == 1:
            return hashlib.sha256(*files.values()).hexdigest()
        return digest(files)


def is_of_model(name: str) -> bool:
    """Whether a bundled file is of the model, and neither of the harness nor of a second model."""
    return not name.startswith(("harness/", f"{AGAINST}/")) and name not in ("__main__.py", f"{CONTRACT}.py")


def make_bundle(spec: RunSpec, root: Path = ROOT) -> Bundle:
    """Collect the device files of a run; ours lie in `root`.

    Raises RefusedHereError, with file and line where there is one, for whatever could not run over there.
    """
    present = STANDARD | ON_DEVICE | set(spec.device_packages)
    harness = _ours(root / "harness") + _contract(spec.harness_path)
    name, model = gather_model(spec.model_path, present, root)
    refuse_unmet(harness + model, present)
    against = ""
    if spec.against:
        against, other = gather_model(spec.against_path, present, root)
        refuse_unmet(harness + other, present)
        model += Gathered(tuple(replace(file, name=f"{AGAINST}/{file.name}") for file in other.files))
    all_ = harness + model
    files = {source.name: source.data for source in sorted(all_.files, key=lambda source: source.name)}
    return Bundle(files, all_.left_out, name, bool(spec.harness_path), against)


def _ours(package: Path) -> Gathered:
    """One of our own packages; its caches come and go with every run and are not worth a word."""
    gathered = gather(package)
    return Gathered(gathered.files, tuple(item for item in gathered.left_out if item.why != CACHE))


# --- the harness ------------------------------------------------------------------------------------------


def _contract(harness_path: str) -> Gathered:
    """The start, and the module that models import the contract from: the user's file, else a shim."""
    start = Source("__main__.py", START, "__main__.py")
    if not harness_path:
        return Gathered((start, Source(f"{CONTRACT}.py", SHIM, f"{CONTRACT}.py")))
    if not Path(harness_path).is_file():
        raise RefusedHereError(f"there is no harness file {harness_path}", "give the path of a Python file")
    harness = read(Path(harness_path), f"{CONTRACT}.py")
    refuse_without(harness, HARNESS_NAMES, all)
    return Gathered((start, harness))


def refuse_without(source: Source, names: Collection[str], enough: Callable[[Iterable[bool]], bool]) -> None:
    """Raise RefusedHereError when not `enough` (any or all) of the names may be defined in a file."""
    offered = {name: source.module.may_offer(name) for name in names}
    if enough(offered.values()):
        return
    missing = [name for name in names if not offered[name]]
    raise RefusedHereError(
        f"{source.shown} does not define {(' or ' if enough is any else ', ').join(missing)}",
        "define it, or import it, at the top level of that file",
    )


# --- the model --------------------------------------------------------------------------------------------


def gather_model(given: str, present: Collection[str], root: Path = ROOT) -> tuple[str, Gathered]:
    """Return the model's module name and its files: the one at a path, or ours when that is empty.

    Raises RefusedHereError when there is none, it cannot be imported by its name, or has no model class.
    """
    path = _model_path(given, present) if given else root / "model"
    model = gather_with_neighbours(path, present) if given else _ours(path)
    refuse_without(_entry(model, path.stem), MODEL_NAMES, any)
    return path.stem, model


def _model_path(given: str, present: Collection[str]) -> Path:
    """Return the file or package folder to bundle, once its name can be imported over there."""
    path = Path(given).absolute()
    path = path.resolve() if path.name in ("", "..") else path
    path = path.parent if path.name == "__init__.py" else path
    if not path.exists():
        raise RefusedHereError(f"there is no model at {given}", "give a Python file or a package's folder")
    if path.is_file() and path.suffix != ".py":
        raise RefusedHereError(f"{given} is no Python file", "give a .py file or a package's folder")
    name = path.stem if path.is_file() else path.name
    if not name.isidentifier() or keyword.iskeyword(name):
        raise RefusedHereError(f"{given}: {name!r} cannot be imported as a module", "rename it")
    if name in RESERVED or name in present:
        owner = "the kernel's own" if name in RESERVED else "the device's"
        raise RefusedHereError(f"{given} would hide {owner} module {name}", "rename it")
    return path


def gather_with_neighbours(path: Path, present: Collection[str]) -> Gathered:
    """Read a file or package and every module that it imports, directly or not, and that lies beside it."""
    gathered = gather(path)
    waiting, seen = list(gathered.files), {path.stem}
    while waiting:
        source = waiting.pop()
        for wanted in source.module.imports if source.is_python else ():
            if wanted.top and wanted.top not in seen:
                seen.add(wanted.top)
                neighbour = _neighbour(path.parent, wanted, source, present)
                added = gather(neighbour) if neighbour else Gathered()
                gathered, waiting = gathered + added, [*waiting, *added.files]
    return gathered + _not_taken(path.parent, gathered, present)


def _neighbour(folder: Path, wanted: Import, source: Source, present: Collection[str]) -> Path | None:
    path = find_module(folder, wanted.top)
    if path is None or wanted.top in RESERVED:
        return None
    if wanted.top not in present:
        refuse_link_outside(path, folder)
        return path
    if wanted.top in STANDARD | ON_DEVICE and is_importable(path):
        raise RefusedHereError(
            f"{source.shown}:{wanted.line} imports {wanted.top}, which the device has and {path} would hide",
            f"rename {path.name}",
        )
    return None


def _not_taken(folder: Path, gathered: Gathered, present: Collection[str]) -> Gathered:
    """What lies beside the model and stays here."""
    taken = {source.name.partition("/")[0] for source in gathered.files}
    left_out = []
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.name in taken or not (path.suffix in CODE_SUFFIXES or is_importable(path)):
            continue
        why = "not imported by the model"
        if path.stem in RESERVED:
            why = "the kernel brings its own"
        elif path.stem in present:
            why = "the device has its own"
        left_out.append(LeftOut(path.name, why))
    return Gathered(left_out=tuple(left_out))


# --- the import rule --------------------------------------------------------------------------------------


def refuse_unmet(gathered: Gathered, present: Collection[str]) -> None:
    """Raise RefusedHereError for an import that neither these files nor the modules present there meet."""
    rule = ImportRule([source.module for source in gathered.files if source.is_python], present)
    unmet = rule.unmet()
    if not unmet:
        return
    said = [f"{module.shown}:{wanted.line} imports {wanted}" for module, wanted in unmet]
    reasons = [
        f"; {item.path} was left out: {item.why}"
        for item in gathered.left_out
        if any(
            wanted.module.replace(".", "/").startswith(item.path.removesuffix(".py")) for _, wanted in unmet
        )
    ]
    more = f" and {len(said) - 3} more" if len(said) > 3 else ""
    raise RefusedHereError(
        f"the device would not find what {', '.join(said[:3])}{more}{''.join(reasons)}",
        _hint(unmet[0][1], rule),
    )


def _hint(wanted: Import, rule: ImportRule) -> str:
    if not wanted.top:
        return "a file on its own has no package: give the package's folder as the model"
    if wanted.top in rule.known:
        return "mend the import, or put what it asks for into that module"
    return (
        f"put {wanted.top} beside the model, guard the import with `except ImportError`, or, when the device"
        f' has it, say so in ferry.toml: device_packages = ["{wanted.top}"]'
    )


def _entry(gathered: Gathered, name: str) -> Source:
    """The file that `import name` runs."""
    return next(source for source in gathered.files if source.name in (f"{name}.py", f"{name}/__init__.py"))
