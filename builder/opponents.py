"""The model that another one is compared with: a path, what git has of it at a commit, or a run's own."""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import tarfile
from pathlib import Path

from builder import runs
from builder.bundle import is_of_model
from builder.errors import UsageError
from builder.templating import ROOT

_RUN = re.compile(r"\d{8}-[0-9a-f-]*")


def find_opponent(word: str, model: Path | None, folder: Path) -> Path:
    """Return the path of the model that `word` names; files that are not on disk as such go to `folder`.

    `model` is the one to be measured, None for gpuferry's own: a commit means that model as it was then.
    UsageError when the word is neither a path, nor a run, nor a commit that has the model.
    """
    path = Path(word)
    if path.exists() and not (path / "spec.json").exists():
        return path.resolve()
    if path.exists() or _RUN.fullmatch(word):
        return _of_run(runs.find(word), folder)
    return _at_commit(word, (model or ROOT / "model").resolve(), folder)


def _of_run(run: runs.Run, folder: Path) -> Path:
    """Unpack the model of a run's stored kernel."""
    part = run.part(run.parts()[0])
    for name, text in _bundled(part / "kernel.py").items():
        if is_of_model(name):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.encode())
    module = json.loads((part / "bundle.json").read_text(encoding="utf-8"))["model"]
    file = folder / f"{module}.py"
    return file if file.exists() else folder / module


def _bundled(kernel: Path) -> dict[str, str]:
    """Return the files that a kernel carries, as it has written them down."""
    for statement in ast.parse(kernel.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "FILES":
            files: dict[str, str] = ast.literal_eval(statement.value)
            return files
    raise UsageError(f"{kernel} carries no files", "give a run whose kernel ferry has built")


def _at_commit(word: str, model: Path, folder: Path) -> Path:
    """Unpack the model, and what lies beside it, as git has it at a commit."""
    top = _git(model.parent, "rev-parse", "--show-toplevel", what=f"{model} is in no git repository")
    root = Path(top.decode().strip())
    unknown = f"{word!r} is no path, no run, and no commit of {root}"
    commit = (
        _git(root, "rev-parse", "--verify", "--quiet", f"{word}^{{commit}}", what=unknown).decode().strip()
    )
    inside = model.relative_to(root.resolve())
    wanted = inside if model == (ROOT / "model").resolve() else inside.parent
    missing = f"{word} has no {inside}"
    packed = _git(root, "archive", "--format=tar", commit, "--", wanted.as_posix(), what=missing)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    if not (folder / inside).exists():
        raise UsageError(missing, "give a commit that has it, or a path")
    return folder / inside


def _git(folder: Path, *arguments: str, what: str) -> bytes:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as problem:
        raise UsageError(f"--against: {what}", "give a file, a commit or a run") from problem
    return done.stdout
