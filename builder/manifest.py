"""`MANIFEST`: the SHA-256 of every file of a published run, as `sha256sum` prints it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from builder.disk import atomic_write

NAME = "MANIFEST"
_LOCK = re.compile(r"\.[a-z]+\.lock")  # whoever looked at the run may have left one
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


def digests(folder: Path) -> dict[str, str]:
    """Return the hash of each file in a folder but manifest and locks, by POSIX path; a link has none."""
    return {
        path.relative_to(folder).as_posix(): "" if path.is_symlink() else _sha256(path)
        for path in sorted(folder.rglob("*"))
        if (path.is_file() or path.is_symlink()) and path != folder / NAME and not _LOCK.fullmatch(path.name)
    }


def text_of(found: Mapping[str, str]) -> str:
    """Return the manifest's text."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(found.items()))


def write(folder: Path) -> None:
    """Write the manifest of what lies in a folder now."""
    atomic_write(folder / NAME, text_of(digests(folder)))


def relist(folder: Path, name: str) -> None:
    """Write the hash of one file, as it is now, into a folder's manifest, and leave its other lines alone."""
    lines = (folder / NAME).read_text(encoding="utf-8").splitlines()
    others = [line for line in lines if line[66:] != name]
    made = sorted([*others, f"{_sha256(folder / name)}  {name}"], key=lambda line: line[66:])
    atomic_write(folder / NAME, "".join(f"{line}\n" for line in made))


def refresh(folder: Path, names: Sequence[str]) -> list[str]:
    """Write the hashes of files that were made anew; return the names of those that have another than before.

    The other lines stay: a raw file that was altered is as wrong as before.
    """
    known = set((folder / NAME).read_text(encoding="utf-8").splitlines())
    changed = [name for name in names if f"{_sha256(folder / name)}  {name}" not in known]
    for name in changed:
        relist(folder, name)
    return changed


def differences(folder: Path) -> Iterator[str]:
    """Yield what speaks against a folder's manifest, a sentence each."""
    try:
        text = (folder / NAME).read_text(encoding="utf-8")
    except (OSError, ValueError):
        yield f"{NAME}: there is none, or it cannot be read"
        return
    listed: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        found = _LINE.fullmatch(line)
        if found is None or found[2] in listed:
            yield f"{NAME}:{number}: {'is no line of a manifest' if found is None else 'names a file again'}"
        else:
            listed[found[2]] = found[1]
    there = digests(folder)
    for name in sorted(listed.keys() | there.keys()):
        if name not in there:
            yield f"{name}: it is in the manifest and is not there"
        elif name not in listed:
            yield f"{name}: it is not in the manifest"
        elif there[name] != listed[name]:
            what = "it was altered" if there[name] else "it is a link"
            yield f"{name}: its SHA-256 is not the manifest's: {what}"


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
