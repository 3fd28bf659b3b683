"""A published run as one ZIP file: written the same each time, and unpacked with suspicion."""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from builder.errors import UsageError

MOST_BYTES = 1 << 30  # of all files together, unpacked
MOST_FILES = 20_000
_EPOCH = (1980, 1, 1, 0, 0, 0)  # no clock of this machine in the archive
_BROKEN = (zipfile.BadZipFile, zlib.error, OSError, ValueError, RuntimeError, EOFError)
_HINT = "ask whoever gave it for the folder itself"


def pack(folder: Path, target: Path, root: str) -> None:
    """Write the files of `folder` into the ZIP `target`, under the one folder `root`."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            info = zipfile.ZipInfo(f"{root}/{path.relative_to(folder).as_posix()}", _EPOCH)
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, path.read_bytes())


def unpack(source: Path, target: Path) -> Path:
    """Unpack a ZIP below `target`; return the folder of the run in it.

    Raises UsageError, and leaves nothing outside `target` whatever happens, for what is no ZIP, is damaged,
    leads out of its folder, holds links, or is a bomb.
    """
    try:
        with zipfile.ZipFile(source) as archive:
            left = MOST_BYTES
            for info in _checked(archive.infolist(), source):
                path = target / info.filename
                path.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(info) as packed, path.open("xb") as stream:
                    while block := packed.read(min(1 << 20, left + 1)):
                        left -= len(block)
                        if left < 0:
                            raise UsageError(f"{source} unpacks to more than {MOST_BYTES:,} bytes", _HINT)
                        stream.write(block)
    except _BROKEN as problem:
        raise UsageError(f"{source} cannot be unpacked: {problem}", _HINT) from problem
    inside = list(target.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else target


def _checked(members: list[zipfile.ZipInfo], source: Path) -> Iterator[zipfile.ZipInfo]:
    """Yield the members that are files, once all of them are known to be harmless by what they say."""
    if len(members) > MOST_FILES:
        raise UsageError(f"{source} holds {len(members):,} files", _HINT)
    if sum(info.file_size for info in members) > MOST_BYTES:
        raise UsageError(f"{source} unpacks to more than {MOST_BYTES:,} bytes", _HINT)
    names: set[str] = set()
    for info in members:
        if why := _unsafe(info) or ("it comes twice" if info.filename.lower() in names else ""):
            raise UsageError(f"{source} holds {info.filename!r:.80}: {why}", _HINT)
        names.add(info.filename.lower())
    yield from (info for info in members if not info.is_dir())


def _unsafe(info: zipfile.ZipInfo) -> str:
    """Say why a member must not be unpacked; empty when it may."""
    name, mode = info.filename, info.external_attr >> 16
    parts = name.rstrip("/").split("/")
    if PurePosixPath(name).is_absolute() or "\\" in name or ":" in name or {"..", ".", ""} & {*parts}:
        return "its name leads out of the folder"
    if not name.isprintable():
        return "its name cannot be shown"
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "it is a link or a device"
    return "it is encrypted" if info.flag_bits & 1 else ""
