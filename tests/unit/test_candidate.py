"""Finding the model that is measured."""

from __future__ import annotations

import hashlib
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import harness.contract
from harness.candidate import (
    CONTRACT,
    Candidate,
    CandidateError,
    load_candidate,
    load_contract,
    locate,
    make_importable,
    origin,
)

MODELS = Path(__file__).parents[1] / "models"
pytestmark = pytest.mark.usefixtures("model_imports")


def _write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def _load(path: Path) -> Candidate:
    return load_candidate(make_importable(path))


@pytest.mark.parametrize(
    "name", ["one_file.py", "with_helper.py", "package_model", "package_model/__init__.py"]
)
def test_a_contest_model_is_found(name: str) -> None:
    """A file, with a helper or without, and a package give their class and the contract's weight copy."""
    candidate = _load(MODELS / name)
    assert candidate.model_class.__name__ == "UserOptimizedTransformer"
    assert candidate.model_class is not harness.contract.UserOptimizedTransformer
    assert candidate.copy_model_weights is harness.contract.copy_model_weights
    assert sys.modules[CONTRACT] is harness.contract


def test_a_model_s_own_weight_copy_is_its_own() -> None:
    """A module that brings `copy_model_weights` is copied with that."""
    candidate = _load(MODELS / "own_copy.py")
    assert candidate.copy_model_weights is sys.modules["own_copy"].copy_model_weights


def test_a_class_called_optimized_transformer_will_do(tmp_path: Path) -> None:
    """Without a class of the contest's name, `OptimizedTransformer` is the model."""
    file = _write(tmp_path, "other_name.py", "class OptimizedTransformer: pass\n")
    assert _load(file).model_class is sys.modules["other_name"].OptimizedTransformer


def test_the_imported_stub_is_no_model(tmp_path: Path) -> None:
    """A module that only imports the contract's stub has no model; one with another class has that."""
    text = f"from {CONTRACT} import *\n"
    with pytest.raises(CandidateError, match=r"only_stub\.py defines neither UserOptimizedTransformer nor"):
        _load(_write(tmp_path, "only_stub.py", text))
    text += "class OptimizedTransformer(UserOptimizedTransformer): pass\n"
    candidate = _load(_write(tmp_path, "stub_as_base.py", text))
    assert candidate.model_class.__name__ == "OptimizedTransformer"


def test_a_missing_model_is_an_error(tmp_path: Path) -> None:
    """No file, no module, and a folder that is no package are three errors."""
    with pytest.raises(CandidateError, match=r"there is no model file .*nowhere\.py"):
        _load(tmp_path / "nowhere.py")
    with pytest.raises(CandidateError, match="there is no model no_such_model: no such module"):
        load_candidate("no_such_model")
    _write(tmp_path, "bare_folder/notes.txt", "no package")
    sys.path.insert(0, str(tmp_path))
    with pytest.raises(CandidateError, match="bare_folder: a folder without __init__"):
        load_candidate("bare_folder")


def test_a_taken_name_is_an_error(tmp_path: Path) -> None:
    """A model file called like a module that is imported already must be renamed."""
    text = "class OptimizedTransformer: pass\n"
    first, second = (_write(tmp_path / folder, "same_name.py", text) for folder in ("a", "b"))
    _load(first)
    with pytest.raises(CandidateError, match=r"same_name\.py is taken by .*rename it"):
        _load(second)


def test_the_model_s_own_error_comes_through(tmp_path: Path) -> None:
    """What a model file raises while it is imported is raised as it is."""
    with pytest.raises(ZeroDivisionError):
        _load(_write(tmp_path, "broken.py", "1 / 0\n"))


def test_the_origin_of_a_file_is_its_sha256(tmp_path: Path) -> None:
    """A file's origin names it and the hash of its bytes."""
    file = _write(tmp_path, "some_model.py", "class OptimizedTransformer: pass\n")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert origin(_load(file).file) == f"{file} sha256={digest}"


def test_the_origin_of_a_package_covers_all_its_files(tmp_path: Path) -> None:
    """A package's hash is that of `sha256sum`'s list of its files; a changed helper changes it."""
    package = tmp_path / "some_package"
    _write(package, "__init__.py", "from .part import OptimizedTransformer\n")
    part = _write(package, "part.py", "class OptimizedTransformer: pass\n")
    file = locate(make_importable(package))
    command = ["sha256sum", "some_package/__init__.py", "some_package/part.py"]
    listing = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout
    before = f"{package} sha256={hashlib.sha256(listing).hexdigest()} (2 files)"
    assert origin(file) == before
    importlib.import_module("some_package")
    assert (package / "__pycache__").exists() is not sys.dont_write_bytecode
    assert origin(file) == before
    part.write_text("class OptimizedTransformer: '''Changed.'''\n")
    assert origin(file) != before


def test_a_model_is_located_without_being_run(tmp_path: Path) -> None:
    """Looking for a model's file does not import it."""
    file = _write(tmp_path, "not_run.py", "1 / 0\n")
    assert locate(make_importable(file)) == file
    assert "not_run" not in sys.modules


def test_a_name_that_is_no_module_s_is_an_error(tmp_path: Path) -> None:
    """A file called with a hyphen is refused, as it is for a kernel."""
    with pytest.raises(CandidateError, match="'my-model' cannot be imported"):
        make_importable(_write(tmp_path, "my-model.py", ""))


def test_somebody_s_harness_is_the_contract(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a bundled harness its stub is the stub and its weight copy is the default one."""
    text = "class UserOptimizedTransformer: pass\ndef copy_model_weights(*_, strict=True): pass\n"
    _write(tmp_path, f"{CONTRACT}.py", text)
    _write(tmp_path, "its_model.py", f"from {CONTRACT} import UserOptimizedTransformer\n")
    good = _write(tmp_path, "its_other.py", "class UserOptimizedTransformer: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    contract = load_contract(own_harness=True)
    assert contract.__file__ == str(tmp_path / f"{CONTRACT}.py")
    with pytest.raises(CandidateError, match="defines neither"):
        load_candidate("its_model")
    assert _load(good).copy_model_weights is contract.copy_model_weights
