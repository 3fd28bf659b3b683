"""Bring the files of a run's working folder: each on its own, so that a broken one costs no other.

A file is written under a temporary name, checked and renamed: what stands in `outputs/` is whole, and a
second pull brings only what is not there. What did not come stands in `outputs.json`, with the reason.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path, PurePosixPath

from builder import retry
from builder.backends import Backend, OutputFile, Submission
from builder.claims import more
from builder.clock import Clock
from builder.errors import FerryError, InfrastructureError
from builder.runs import atomic_write, read_json
from harness.events import to_plain

SHOWN = 20  # files of a kind
ROUNDS = 3  # a link may have expired: each round lists the files anew
RESULTS = "ferry-events*"
_END = "the list of files itself"


@dataclass(frozen=True)
class Wanted:
    """Which files to bring: patterns of their names, and the most bytes of one (0: no limit).

    The results are always brought.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    limit_bytes: int = 0

    def left_out(self, file: OutputFile) -> str:
        """Say why a file is not brought; empty when it is."""
        if fnmatch(file.name, RESULTS):
            return ""
        if self.include and not any(fnmatch(file.name, pattern) for pattern in self.include):
            return "no --include fits it"
        if any(fnmatch(file.name, pattern) for pattern in self.exclude):
            return "an --exclude fits it"
        return self.too_large(file.size)

    def asks_for(self, left_out: Iterable[str]) -> bool:
        """Whether some of the files that were left out before may be wanted now."""
        return any(not self.left_out(OutputFile(name)) for name in left_out)

    def too_large(self, size: int) -> str:
        """Say that so many bytes are too many; empty when they are not."""
        return f"it has more than {self.limit_bytes:,} bytes" if 0 < self.limit_bytes < size else ""


EVERYTHING = Wanted()


@dataclass
class Brought:
    """What became of the files: how many are here; by name, why others are missing, left out or refused."""

    count: int = 0
    missing: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def sentences(self) -> list[str]:
        """Say for people what is not here."""
        kinds = (("missing", self.missing), ("left out", self.left_out), ("refused", self.refused))
        return [sentence for kind, files in kinds for sentence in _told(kind, files)]

    def missing_names(self) -> str:
        """Name what is missing, in one line that is never long."""
        rest = more(len(self.missing) - SHOWN, "files")
        return ", ".join([*islice(self.missing, SHOWN), *rest])


def _told(kind: str, files: Mapping[str, str]) -> Iterator[str]:
    for name, why in islice(files.items(), SHOWN):
        yield f"{kind}: {name} ({why})"
    yield from more(len(files) - SHOWN, f"{kind}; outputs.json names them all")


class _TooLargeError(Exception):
    """A file turned out to be larger than wanted."""


def report(part: Path) -> Brought:
    """Return what the last fetch of a part has said; nothing for a part whose outputs came another way."""
    path = part / "outputs.json"
    return read_json(Brought, path) if path.exists() else Brought()


def write_report(part: Path, brought: Brought) -> None:
    """Write `outputs.json`: what became of each file."""
    atomic_write(part / "outputs.json", json.dumps(to_plain(brought), indent=2) + "\n")


def bring(submission: Submission, part: Path, backend: Backend, wanted: Wanted, clock: Clock) -> Brought:
    """Bring a submission's files into `outputs/` of the part's folder.

    Never raises for what the place does: that is in what it returns.
    """
    (part / "outputs").mkdir(parents=True, exist_ok=True)
    for number in range(1, ROUNDS + 1):
        brought = _round(submission, part, backend, wanted)
        if not brought.missing or number == ROUNDS:
            break
        clock.sleep(retry.pause_s(InfrastructureError(""), number))
    return brought


def _round(submission: Submission, part: Path, backend: Backend, wanted: Wanted) -> Brought:
    brought = Brought()
    files: dict[str, OutputFile] = {}
    try:
        for file in backend.list_outputs(submission):
            files.setdefault(file.name, file)  # a page that comes twice names its files twice
    except FerryError as problem:
        brought.missing[_END] = problem.message
    for file in sorted(files.values(), key=lambda file: not fnmatch(file.name, RESULTS)):
        if why := _unsafe(file.name):
            brought.refused[file.name] = why
        elif why := wanted.left_out(file):
            brought.left_out[file.name] = why
        else:
            _file(submission, file, part, backend, wanted, brought)
    brought.count = len(files) - len(brought.refused) - len(brought.left_out)
    brought.count -= sum(name in files for name in brought.missing)
    return brought


def _file(
    submission: Submission, file: OutputFile, part: Path, backend: Backend, wanted: Wanted, brought: Brought
) -> None:
    """Bring one file unless it is here."""
    target, draft = part / "outputs" / file.name, part / ".output.tmp"
    try:
        if target.is_file():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as stream:
            for block in _checked(backend.fetch_output(submission, file), file, wanted):
                stream.write(block)
            stream.flush()
            os.fsync(stream.fileno())
        draft.rename(target)
    except _TooLargeError as problem:
        brought.left_out[file.name] = str(problem)
    except FerryError as problem:
        brought.missing[file.name] = problem.message
    except (OSError, ValueError) as problem:  # a name too long, a file where a folder should be, a full disk
        brought.missing[file.name] = str(problem)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _checked(blocks: Iterator[bytes], file: OutputFile, wanted: Wanted) -> Iterator[bytes]:
    received = 0
    for block in blocks:
        received += len(block)
        if not fnmatch(file.name, RESULTS) and (why := wanted.too_large(received)):
            raise _TooLargeError(why)
        yield block
    if file.size >= 0 and received != file.size:
        raise InfrastructureError(f"it came with {received:,} of its {file.size:,} bytes")


def _unsafe(name: str) -> str:
    """Say why a name must not become a file's; empty when it may."""
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\\" in name or ":" in path.parts[0]:
        return "its name leads out of the folder"
    if not name.isprintable():
        return "its name cannot be shown"
    return ""
