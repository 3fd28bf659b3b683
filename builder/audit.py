"""Hold every run against its raw log: the published ones, their index and manifests, and the user's own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from builder import manifest, verifying
from builder.disk import PUBLISHED, RUN_ID
from builder.publishing import INDEX
from builder.runs import Run

# What a run goes on writing, or makes anew, after it was published.
_GOES_ON = ("journal.jsonl", "retractions.jsonl", "results.csv", "samples.csv", "profile.csv", "report.html")
_SHOWN = 20


@dataclass(frozen=True)
class Audited:
    """What was found in one run, or in the index, with the places where the true copies are."""

    place: Path
    found: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    skipped: str = ""

    def lines(self) -> Iterator[str]:
        """Yield it for people: each difference with its file, then where the true copy is."""
        yield from (f"{self.place / sentence}" for sentence in self.found)
        yield from (f"hint: {sentence}" for sentence in self.copies)


def audit(root: Path) -> Iterator[Audited]:
    """Yield what holds, or does not, of each run in a runs' root, the published ones first.

    Nothing is written. A run that is not finished is skipped.
    """
    published = root / PUBLISHED
    if published.is_dir():
        yield _of_index(published)
    for folder in _folders(published):
        verdict = verifying.verify(folder)
        yield _audited(folder, verdict.found, verdict.copies)
    for folder in _folders(root):
        yield _of_own(Run(folder), published / folder.name)


def _folders(root: Path) -> list[Path]:
    names = root.iterdir() if root.is_dir() else ()
    return sorted(path for path in names if RUN_ID.fullmatch(path.name) and path.is_dir())


def _of_own(run: Run, published: Path) -> Audited:
    """Audit a run of the user's own; where it was published its raw files must be those of its copy."""
    if run.state(0) != "parsed":  # also one that was resumed: its CSVs are of the parts before
        return Audited(run.folder, skipped="it is not finished")
    verdict = verifying.verify(run.folder, is_published=False)
    found = [*verdict.found, *_unlike(run.folder, published)]
    copies = verdict.copies
    if (published / manifest.NAME).exists():
        copies = f"{published}; {copies}"
    return _audited(run.folder, found, f"{copies}; CSVs alone: `ferry parse {run.id}` makes them anew")


def _unlike(folder: Path, published: Path) -> Iterator[str]:
    """Name the raw files that are not those of the published copy; a part that came later is in no copy."""
    if not (published / manifest.NAME).exists():
        return
    own, copy = manifest.digests(folder), manifest.digests(published)
    for name in sorted(copy.keys()):
        derived = name in _GOES_ON or name.endswith("/events.jsonl")
        if not derived and own.get(name) != copy[name]:
            yield f"{name}: {'it is not' if name in own else 'it is gone; it is'} in {published}"


def _of_index(published: Path) -> Audited:
    """Hold the index of published runs against the folders."""
    path = published / INDEX
    try:
        listed = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return _audited(published, [f"{INDEX}: there is none, or it cannot be read"], "")
    there = {folder.name for folder in _folders(published)}
    found = [
        f"{INDEX}:{number}: there is no published run {name!r}"
        for number, name in enumerate(listed, 1)
        if name not in there
    ]
    again = [
        f"{INDEX}:{number}: {name} is listed again"
        for number, name in enumerate(listed, 1)
        if name in listed[: number - 1]
    ]
    missing = [f"{INDEX}: it does not list {name}" for name in sorted(there - set(listed))]
    return _audited(published, found + again + missing, "", only=INDEX)


def _audited(place: Path, found: list[str], copies: str, only: str = "") -> Audited:
    if not found:
        return Audited(place)
    hints = [_of_git(place / only if only else place)]
    hints += [f"true copies of {place.name}: {copies}"] if copies else []
    return Audited(place, tuple(found), tuple(filter(None, hints)))


# --- what git has -----------------------------------------------------------------------------------------


def _of_git(place: Path) -> str:
    """Say which files git has otherwise, and from which line on; empty where git has nothing to say."""
    command = ("diff", "--no-ext-diff", "--no-textconv", "--no-renames", "--no-color", "-U0", "HEAD", "--")
    folder = place if place.is_dir() else place.parent
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *command, str(place)], capture_output=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    if names := list(_changed(done.stdout.decode(errors="replace"))):
        more = [f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
        return f"git has otherwise {', '.join(names[:_SHOWN] + more)}; to get it back: git restore {place}"
    return ""


def _changed(diff: str) -> Iterator[str]:
    """Yield each file of a diff with its first changed line, as it is numbered here."""
    name, told = "", True
    for line in diff.splitlines():
        if line.startswith("diff --git a/"):
            if not told:
                yield name
            name, told = line.rpartition(" b/")[2], False
        elif line.startswith("@@ ") and not told:
            number = line.split("+", 1)[1].split(" ")[0].split(",")[0]
            yield f"{name}:{number}" if number != "0" else name
            told = True
    if not told:
        yield name
