"""New Python environments that need no network."""

from __future__ import annotations

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
