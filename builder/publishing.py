"""Make a run into evidence: a folder or ZIP with its raw files, sources, figures and a manifest of hashes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from builder import archive, crossing, manifest, reading, retractions, runs, secrets
from builder.disk import PUBLISHED, atomic_write
from builder.errors import UsageError
from builder.reading import Reading
from builder.runs import Run
from harness.events import is_simulated

INDEX = "INDEX"
REPORT = "report.html"
# What figures rest on, and what is made from it; other outputs of the program are its own affair.
_KEPT = (
    "spec.json",
    "journal.jsonl",
    retractions.FILE,
    "results.csv",
    "samples.csv",
    "profile.csv",
    "parts/*/kernel.ipynb",
    "parts/*/kernel.py",
    "parts/*/kernel-metadata.json",
    "parts/*/bundle.json",
    "parts/*/submission.json",
    "parts/*/spec.json",
    "parts/*/events.jsonl",
    "parts/*/log*.raw",
    "parts/*/outputs*.json",
    "parts/*/outputs*/ferry-events*.jsonl",
)


@dataclass(frozen=True)
class Published:
    """Where the evidence is, and what people should know of it."""

    place: Path
    files: int
    notes: tuple[str, ...]


def publish(run: Run, target: Path | None = None, page: str = "") -> Published:
    """Write a run's evidence to a folder or, for a name that ends in .zip, to an archive.

    Without a target it goes to the published runs, and into their index. The run is parsed anew first; `page`
    is a report of it, to lie beside the rest. Raises UsageError when there is nothing to show, when a device
    was simulated, or when something is in the way; RefusedHereError when a file holds a credential.
    """
    if not run.logs():
        raise UsageError(f"run {run.id} has no log yet", f"next: ferry pull {run.id}")
    if run.spec.known:
        raise UsageError(
            f"run {run.id} has rows of other runs: {', '.join(sorted({*run.spec.known.values()}))}",
            "publish those, or measure all in one run: --fresh",
        )
    place = target or runs.runs_root() / PUBLISHED / run.id
    if place.exists():
        raise UsageError(f"there is something at {place} already", "name another place, or move it away")
    is_evidence = run.folder.parent.name == PUBLISHED  # which is left as it is
    notes = tuple(_notes(run, reading.of_run(run) if is_evidence else crossing.parse(run)))
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".new-", dir=place.parent))
    try:
        count = _copy(run, draft / run.id, page)
        if place.suffix == ".zip":
            archive.pack(draft / run.id, draft / "archive", run.id)
            (draft / "archive").rename(place)
        else:
            (draft / run.id).rename(place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    if target is None:
        _list(run.id)
    return Published(place, count, notes)


def _notes(run: Run, found: Reading | crossing.Outcome) -> Iterator[str]:
    """Yield what a reader must know. UsageError for rows that must not be shown to anybody."""
    simulated = [row.case_id for row in found.rows if row.is_simulated]
    hardware = found.records.hardware
    if simulated or (hardware and any(is_simulated(card.name) for card in hardware.cards)):
        raise UsageError(
            f"run {run.id} is of a simulated device, which measures nothing", "publish a run on real hardware"
        )
    if not found.records.complete:
        yield "unfinished: not every case has a result, and whoever verifies it is told"
    yield from retractions.read(run.folder).describe()
    for name, path in (("model", run.spec.model_path), ("harness", run.spec.harness_path)):
        if path:
            yield f"spec.json names the {name}'s path on this machine: {path}"


def _copy(run: Run, target: Path, page: str) -> int:
    """Copy what is kept, checked for credentials, and write its manifest; return how many files there are."""
    paths = [path for pattern in _KEPT for path in sorted(run.folder.glob(pattern))]
    for path in paths:
        if path.is_symlink() or not path.is_file():
            raise UsageError(f"{path} is no plain file", "put the file itself there")
        name = path.relative_to(run.folder).as_posix()
        secrets.refuse_keys(path.read_text(encoding="utf-8", errors="replace"), name)
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / name)
    if page:
        atomic_write(target / REPORT, page)
    manifest.write(target)
    return len(paths) + 1 + bool(page)


def _list(run_id: str) -> None:
    """Put a run into the index of published runs."""
    index = runs.runs_root() / PUBLISHED / INDEX
    known = index.read_text(encoding="utf-8").split() if index.exists() else []
    atomic_write(index, "".join(f"{name}\n" for name in sorted({*known, run_id})))
