"""Which model a word names, and how two models of one name live in one process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from builder.bundle import make_bundle
from builder.errors import UsageError
from builder.opponents import find_opponent
from builder.spec import RunSpec
from harness.apart import Apart
from harness.candidate import load_candidate
from harness.shapes import SHAPES, Case

PUBLISHED = Path(__file__).parents[2] / "runs" / "published"
MODEL = """from torch_transformer_benchmark import BaselineTransformer

VERSION = {version}


class UserOptimizedTransformer(BaselineTransformer):
    version = VERSION

    def late(self):
        from {name}.part import VERSION

        return VERSION
"""


def write_package(folder: Path, version: int, name: str = "pack") -> Path:
    """Lay down a model in a package with a part that is imported late; return its folder."""
    package = folder / name
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(MODEL.format(version=version, name=name))
    (package / "part.py").write_text(f"VERSION = {version}\n")
    return package


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose first commit, `v1`, has version 1 of a package, and whose files have version 2."""
    folder = tmp_path / "repository"
    write_package(folder, 1)
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"], ["tag", "v1"]):
        subprocess.run(["git", *identity, *command], cwd=folder, check=True)
    write_package(folder, 2)
    return folder


def test_a_path_is_itself(tmp_path: Path) -> None:
    """A file or folder that is there is taken where it lies."""
    package = write_package(tmp_path, 1)
    assert find_opponent(str(package), None, tmp_path / "other") == package


def test_a_commit_is_the_model_as_it_was(repository: Path, tmp_path: Path) -> None:
    """The package comes out of git whole, its files on disk untouched."""
    found = find_opponent("v1", repository / "pack", tmp_path / "old")
    assert (found / "part.py").read_text() == "VERSION = 1\n"
    assert (repository / "pack" / "part.py").read_text() == "VERSION = 2\n"


def test_a_run_is_what_its_kernel_carried(tmp_path: Path) -> None:
    """The model of a published run comes out of its stored kernel, without the harness."""
    run_id = (PUBLISHED / "INDEX").read_text(encoding="utf-8").split()[0]
    found = find_opponent(str(PUBLISHED / run_id), None, tmp_path)
    assert found == tmp_path / "model"
    assert (found / "__init__.py").exists()
    assert not (tmp_path / "harness").exists()


@pytest.mark.parametrize("word", ["no-such-thing", "v9", "20000101-000000-abcdef"])
def test_a_word_that_names_nothing_is_refused(repository: Path, tmp_path: Path, word: str) -> None:
    """What is neither path nor run nor commit is said to be none."""
    with pytest.raises(UsageError, match=r"is no path, no run, and no commit|no run in .* begins with"):
        find_opponent(word, repository / "pack", tmp_path / "old")


def test_the_bundle_keeps_the_other_version_apart(tmp_path: Path) -> None:
    """The second model lies in a folder of its own and does not change the hash of the first."""
    new, old = write_package(tmp_path / "new", 2), write_package(tmp_path / "old", 1)
    cases = (Case(SHAPES["t01"], protocol="strict"),)
    alone = make_bundle(RunSpec("smoke", cases, model_path=str(new)))
    both = make_bundle(RunSpec("smoke", cases, model_path=str(new), against="old", against_path=str(old)))
    assert set(both.files) - set(alone.files) == {"against/pack/__init__.py", "against/pack/part.py"}
    assert (both.against, both.model_sha256) == ("pack", alone.model_sha256)
    assert both.sha256 != alone.sha256


@pytest.mark.usefixtures("model_imports")
def test_two_models_of_one_name_each_have_their_own_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each version imports its own parts, at its import and at a call, and leaves the other's in place."""
    write_package(tmp_path, 2, "twin")
    write_package(tmp_path / "against", 1, "twin")
    monkeypatch.syspath_prepend(str(tmp_path))
    new = load_candidate("twin").model_class
    apart = Apart(tmp_path / "against")
    old = apart.load("twin").model_class
    with apart.room():
        assert old.late(None) == 1  # type: ignore[attr-defined]
    assert new.late(None) == 2  # type: ignore[attr-defined]
    assert str(tmp_path / "against") not in sys.path
