"""The backend that CONTRIBUTING.md adds in one file: put there, it does what every backend must do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECIPE = re.compile(
    r"^`(builder/backends/(\w+)\.py)`, whole:\n\n```python\n(.*?)^```", re.MULTILINE | re.DOTALL
)
CONTRACT = "tests/contract/test_backends.py"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project, to which exactly the one file of the recipe has been added."""
    copy = tmp_path_factory.mktemp("checkout")
    for room in ("builder", "harness", "model", "templates", "tests"):
        shutil.copytree(ROOT / room, copy / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    found = RECIPE.search((ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert found, "CONTRIBUTING.md has no backend that is whole"
    path, _, text = found.groups()
    assert not (copy / path).exists()
    (copy / path).write_text(text, encoding="utf-8")
    return copy


def run(checkout: Path, *command: str) -> str:
    """Run a module of Python in the copy; return what it says."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_the_example_is_a_backend(checkout: Path) -> None:
    """The contract's tests find it by its file, and it passes every one of them."""
    said = run(checkout, "pytest", CONTRACT, "-q", "-k", "nice", "-p", "no:cacheprovider", "-p", "no:xdist")
    assert "3 passed" in said
    assert "This machine at a low priority" in run(checkout, "builder", "backends")


@pytest.mark.slow
def test_the_example_is_written_as_our_own_code(checkout: Path) -> None:
    """The linter that our backends obey has nothing to say about it."""
    run(checkout, "ruff", "check", "builder/backends/nice.py")
    run(checkout, "ruff", "format", "--check", "builder/backends/nice.py")
