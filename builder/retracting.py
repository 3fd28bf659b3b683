"""Take a number back, on the record: `retractions.jsonl` is only ever added to."""

from __future__ import annotations

import json
from pathlib import Path

from builder import manifest, runs
from builder.disk import PUBLISHED, atomic_write
from builder.errors import UsageError
from builder.retractions import FILE, WHOLE, read
from builder.runs import Run


def retract(run: Run, case: str, because: str) -> list[Path]:
    """Take a run's case back, or all of it for an empty `case`; return the folders that now say so.

    A published copy says it too. UsageError without a reason, for a case that the run does not have, and for
    what is retracted already.
    """
    if not because.strip():
        raise UsageError(
            "a retraction has a reason", 'for example --because "another process was on the card"'
        )
    case_id = _case_of(run, case) if case else WHOLE
    if read(run.folder).why(case_id):
        raise UsageError(f"{case_id or f'run {run.id}'} is retracted already", f"see ferry show {run.id}")
    root = runs.runs_root()
    folders = {run.folder.resolve(): run.folder}
    for copy in (root / run.id, root / PUBLISHED / run.id):
        if (copy / "spec.json").exists():
            folders.setdefault(copy.resolve(), copy)
    line = json.dumps({"at": runs.now_text(), "case_id": case_id, "because": because.strip()}) + "\n"
    for folder in folders.values():
        _append(Run(folder), line)
    return list(folders.values())


def _case_of(run: Run, prefix: str) -> str:
    known = [case.id for case in run.spec.cases]
    found = [case_id for case_id in known if case_id.startswith(prefix)]
    found = [prefix] if prefix in known else found
    if len(found) != 1:
        said = f"{len(found)} cases of run {run.id} begin with {prefix!r}"
        raise UsageError(said, f"its cases: {', '.join(found or known)}")
    return found[0]


def _append(run: Run, line: str) -> None:
    """Add a line, and make an existing manifest name it; a manifest that is wrong elsewhere stays so."""
    with run.lock():
        path = run.folder / FILE
        before = path.read_bytes() if path.exists() else b""
        before += b"" if before.endswith(b"\n") or not before else b"\n"
        atomic_write(path, before + line.encode())
        if (run.folder / manifest.NAME).exists():
            manifest.relist(run.folder, FILE)
