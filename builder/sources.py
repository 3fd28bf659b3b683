"""The files that travel: a module or a whole package read from disk, and what was left out and why.

Only UTF-8 texts with a known suffix travel. A `.gitignore` is not consulted: it may match a source.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from builder import imports, secrets
from builder.errors import RefusedHereError

CODE_SUFFIXES = (".py", ".cu", ".cuh", ".h", ".hpp", ".cpp", ".c")
SUFFIXES = (*CODE_SUFFIXES, ".json", ".txt", ".toml", ".yaml")
CACHE = "a cache"
_TEST_FILES = ("test_*.py", "*_test.py", "conftest.py")


@dataclass(frozen=True)
class LeftOut:
    """A file or folder that does not travel, by its path from where the bundle's files lie, and why."""

    path: str
    why: str


@dataclass(frozen=True)
class Source:
    """One file that travels: its name in the bundle, its bytes, and how messages call it."""

    name: str
    data: bytes
    shown: str

    @property
    def is_python(self) -> bool:
        """Whether Python can import it."""
        return self.name.endswith(".py")

    @functools.cached_property
    def module(self) -> imports.Module:
        """What it imports and offers. RefusedHereError when it is not valid Python."""
        return imports.read_module(self.name, self.data, self.shown)


@dataclass(frozen=True)
class Gathered:
    """What was found under one name."""

    files: tuple[Source, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    def __add__(self, other: Gathered) -> Gathered:
        return Gathered(self.files + other.files, self.left_out + other.left_out)


def find_module(folder: Path, name: str) -> Path | None:
    """Return the package or file in `folder` that `import name` would take, or None."""
    package, file = folder / name, folder / f"{name}.py"
    if is_importable(package):
        return package
    if is_importable(file):
        return file
    return package if any(package.glob("*.py")) else None


def is_importable(path: Path) -> bool:
    """Whether Python takes `path` for a module or a package with an `__init__.py`."""
    with contextlib.suppress(PermissionError):  # a folder that may not be entered
        return (path.suffix == ".py" and path.is_file()) or (path / "__init__.py").is_file()
    return False


def gather(path: Path) -> Gathered:
    """Read a module file or a whole package; names start at the folder that it lies in.

    Raises RefusedHereError for a folder that is no package, a link that leads out of it, a credential, and
    a Python file that is no UTF-8 text.
    """
    if path.is_dir():
        if not (path / "__init__.py").is_file():
            raise RefusedHereError(
                f"{path} is a folder without an __init__.py, so it is no package",
                "add an empty __init__.py, or name the file that holds the model",
            )
        return _gather_folder(path, path)
    secrets.refuse_file_name(path.resolve().name, str(path))
    return Gathered((read(path, path.name),))


def _gather_folder(folder: Path, package: Path) -> Gathered:
    gathered = Gathered()
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        name = path.relative_to(package.parent).as_posix()
        secrets.refuse_file_name(path.name, str(path))
        refuse_link_outside(path, package)
        if why := next(_reasons_against(path), ""):
            gathered += Gathered(left_out=(LeftOut(name if name.isprintable() else ascii(name), why),))
        elif path.is_dir():
            gathered += _gather_folder(path, package)
        else:
            gathered += Gathered((read(path, name),))
    return gathered


def _reasons_against(path: Path) -> Iterator[str]:
    """Say why a package's file or folder does not travel, if so."""
    if path.name == "__pycache__":
        yield CACHE
    if path.name.startswith("."):
        yield "hidden"
    if not path.name.isprintable():
        yield "a name that cannot be shown"
    if path.is_dir():
        if path.is_symlink():
            yield "a link to a folder"
        if path.name in ("test", "tests"):
            yield "tests"
        return
    if any(fnmatch(path.name, pattern) for pattern in _TEST_FILES):
        yield "a test"
    if path.suffix not in SUFFIXES:
        yield f"no known text: {', '.join(SUFFIXES)} travel"
    elif not path.is_file():
        yield "no regular file"
    elif path.suffix != ".py" and not _is_utf8(path.read_bytes()):
        yield "no UTF-8 text"


def refuse_link_outside(path: Path, folder: Path) -> None:
    """Raise RefusedHereError when `path` is a link to anything but what lies in `folder`."""
    inside = path.exists() and path.resolve().is_relative_to(folder.resolve())
    if path.is_symlink() and not inside:
        raise RefusedHereError(
            f"{path} is a link that leads to nothing in {folder}", "put the file itself there, or remove it"
        )


def read(path: Path, name: str) -> Source:
    """Read one file. RefusedHereError when it is no UTF-8 text or holds a key."""
    data = path.read_bytes()
    if not _is_utf8(data):
        raise RefusedHereError(f"{path} is not UTF-8 text", "save it as UTF-8")
    secrets.refuse_keys(data.decode(), str(path))
    return Source(name, data, str(path))


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
