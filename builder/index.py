"""The index of all runs: one row a run, derived from the run folders and never needed.

`.index.json` in the runs' root remembers each folder's row with the time of its last change (the inode's,
which nobody sets); a folder that has changed since is read again. Every change of a run changes its folder:
a journal's entry touches it, and other files are written beside and renamed. Two processes that write the
index at once cost each other nothing but another look; where it is missing or cannot be read, all is read.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

import msgspec

from builder.disk import PUBLISHED, RUN_ID, atomic_write, runs_root

FILE = ".index.json"
SCHEMA = 1
DAMAGED = "damaged"
# A change within so short a time of the look might be followed by another that has the same time.
_SETTLED_NS = 2_000_000_000


class Entry(msgspec.Struct, gc=False, frozen=True):
    """What the index says of one run. Lists are joined by blanks, devices by `, `; texts are as they came.

    `place` is the folder, from the runs' root; `state` is the run's, or `damaged`, and `note` says what is
    wrong with it. `cases` were planned; `statuses` counts rows; `retracted` are case ids, or `all`.
    """

    run_id: str
    place: str
    state: str = ""
    backend: str = ""
    accelerator: str = ""
    devices: str = ""
    suite: str = ""
    name: str = ""
    note: str = ""
    shapes: str = ""
    routes: str = ""
    dtypes: str = ""
    protocols: str = ""
    cases: int = 0
    statuses: dict[str, int] = {}
    retracted: str = ""

    @property
    def is_published(self) -> bool:
        """Whether it is kept as evidence."""
        return self.place.startswith(f"{PUBLISHED}/")


class _Kept(msgspec.Struct, gc=False, frozen=True):
    """A row and its folder's last change in ns; 0 where the folder had only just changed."""

    changed_ns: int
    entry: Entry


class _File(msgspec.Struct, frozen=True):
    schema: int
    rows: list[_Kept]


def entries(root: Path | None = None) -> list[Entry]:
    """Return a row for each run folder in `root`, the newest first; the index is brought up to date."""
    root = runs_root() if root is None else root
    known = _remembered(root / FILE)
    settled = time.time_ns() - _SETTLED_NS
    rows, fresh = [], 0
    for place, changed_ns in _folders(root):
        kept = known.get(place)
        if kept is None or kept.changed_ns != changed_ns:
            fresh += 1
            kept = _Kept(changed_ns if changed_ns < settled else 0, _read(root, place))
        rows.append(kept)
    if fresh or len(rows) != len(known):
        with contextlib.suppress(OSError):  # a root that cannot be written can still be listed
            atomic_write(root / FILE, msgspec.json.encode(_File(SCHEMA, rows)))
    # a run of one's own stays before its published copy
    return sorted([kept.entry for kept in rows], key=attrgetter("run_id"), reverse=True)


def _remembered(path: Path) -> dict[str, _Kept]:
    try:
        file = msgspec.json.decode(path.read_bytes(), type=_File)
    except (OSError, ValueError, msgspec.MsgspecError, RecursionError):
        return {}
    return {kept.entry.place: kept for kept in file.rows} if file.schema == SCHEMA else {}


def _folders(root: Path) -> Iterator[tuple[str, int]]:
    """Yield each run folder's place and the time of its last change in ns."""
    for prefix in ("", f"{PUBLISHED}/"):
        try:
            names = sorted(filter(RUN_ID.fullmatch, os.listdir(root / prefix)))  # noqa: PTH208 - names alone
            folder = os.open(root / prefix, os.O_RDONLY)
        except OSError:
            continue
        try:
            for name in names:
                yield prefix + name, _changed_ns(name, folder)
        finally:
            os.close(folder)


def _changed_ns(name: str, folder: int) -> int:
    try:
        return os.stat(name, dir_fd=folder).st_ctime_ns
    except OSError:
        return 0


def _read(root: Path, place: str) -> Entry:
    """Read one folder. Its module is loaded only when there is something to read."""
    from builder.indexing import read_folder

    return read_folder(root / place, place)
