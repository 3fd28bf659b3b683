"""The real `kaggle` command, as its users start it: unmodified, in an environment of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.service.kaggle.server import KaggleServer

PROGRAM = Path(sys.executable).with_name("kaggle")
NOTEBOOK_KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


@dataclass
class Client:
    """One user's client. `home` is empty at first; `environment` is all that it has besides a path."""

    home: Path
    environment: dict[str, str]
    prefix: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, server: KaggleServer, home: Path, auth: str = "bearer") -> Client:
        """Return a client that reaches `server` as its proxy."""
        home.mkdir(exist_ok=True)
        return cls(home, server.environment(auth=auth))

    def __call__(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        command = [*self.prefix, sys.executable, str(PROGRAM), *map(str, arguments)]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=self.home,
            env={"HOME": str(self.home), "PATH": "/usr/bin:/bin", **self.environment},
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )


def kernel_folder(folder: Path, source: str, slug: str = "hello-kernel", **settings: object) -> Path:
    """Write a kernel as the client wants it: a script, or a notebook of one cell with `kernel_type`."""
    folder.mkdir(parents=True, exist_ok=True)
    notebook = settings.get("kernel_type") == "notebook"
    name = "kernel.ipynb" if notebook else "kernel.py"
    title = slug.replace("-", " ")
    about: dict[str, object] = {"id": f"alice/{slug}", "title": title, "code_file": name}
    about |= {"language": "python", "kernel_type": "script"} | settings
    (folder / "kernel-metadata.json").write_text(json.dumps(about), "utf-8")
    (folder / name).write_text(notebook_text(source) if notebook else source, "utf-8")
    return folder


def notebook_text(*sources: str) -> str:
    """Return a notebook with these code cells, their sources as lists of lines, as editors save them."""
    cells: list[dict[str, object]] = [
        {
            "id": f"cell-{number}",
            "cell_type": "code",
            "execution_count": None,
            "metadata": {},
            "outputs": [],
            "source": source.splitlines(keepends=True),
        }
        for number, source in enumerate(sources)
    ]
    about = {"kernelspec": NOTEBOOK_KERNEL}
    return json.dumps({"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5})
