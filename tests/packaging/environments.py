"""New Python environments that need no network."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import venv
from pathlib import Path


def make_environment(home: Path) -> Path:
    """Return the interpreter of a new environment, without pip, that sees what this one has installed.

    A path file inside a folder that was added by a path file is not read: an editable gpuferry in this
    environment stays out of sight.
    """
    venv.create(home, symlinks=True, with_pip=False)
    (site,) = home.glob("lib/python*/site-packages")
    packages = [path for path in sys.path if Path(path).name == "site-packages"]
    (site / "dependencies.pth").write_text("".join(f"{path}\n" for path in packages))
    return home / "bin" / "python"


def make_torch_environment(home: Path) -> Path:
    """Return the interpreter of a new environment that holds torch with what torch requires, and no more."""
    venv.create(home, symlinks=True, with_pip=False)
    (site,) = home.glob("lib/python*/site-packages")
    for name in _required("torch"):
        files = importlib.metadata.files(name) or []
        for top in {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}:
            (site / top).symlink_to(str(importlib.metadata.distribution(name).locate_file(top)))
    return home / "bin" / "python"


def _required(name: str) -> set[str]:
    """The installed distributions that one needs, itself included; extras are not."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        distribution = waiting.pop()
        try:
            requirements = importlib.metadata.requires(distribution) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # for another platform
        if distribution not in found:
            found.add(distribution)
            waiting += [re.split(r"[^\w.-]", text)[0] for text in requirements if "extra ==" not in text]
    return found
