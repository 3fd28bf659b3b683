"""One run folder to its row of the index, whatever state it is in: what is wrong with it is in the row."""

from __future__ import annotations

import csv
import stat
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from builder import retractions
from builder.index import DAMAGED, Entry

_MOST_BYTES = 64 * 2**20  # of one file: far more than a run of thousands of cases has


class _Shape(msgspec.Struct):
    key: str


class _Case(msgspec.Struct):
    shape: _Shape
    route: str
    dtype: str
    protocol: str


class _Spec(msgspec.Struct):
    """What the index takes from a spec."""

    suite: str
    cases: list[_Case]
    run_id: str = ""
    name: str = ""
    backend: str = ""
    accelerator: str = ""


class _Line(msgspec.Struct):
    """A line of the journal."""

    part: int
    state: str
    detail: str = ""


class _DamagedError(Exception):
    """A folder is no whole run; the text says why."""


def read_folder(folder: Path, place: str) -> Entry:
    """Return the row of the run in `folder`; never raises for what lies there."""
    whole = Entry(folder.name, place)
    try:
        whole = _planned(whole, folder)
        whole = _journalled(whole, folder / "journal.jsonl")
        whole = _measured(whole, folder / "results.csv")
    except (_DamagedError, OSError) as problem:
        return msgspec.structs.replace(whole, state=DAMAGED, note=_said(problem))
    return whole


def _said(problem: Exception) -> str:
    if isinstance(problem, OSError):
        return f"{Path(problem.filename or '').name}: {problem.strerror}"
    return str(problem)


def _planned(entry: Entry, folder: Path) -> Entry:
    text = _bytes(folder / "spec.json")
    if text is None:
        raise _DamagedError("there is no spec.json")
    try:
        spec = msgspec.json.decode(text, type=_Spec)
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise _DamagedError(f"spec.json cannot be read: {problem}") from problem
    if spec.run_id != folder.name:
        raise _DamagedError(f"spec.json is of run {spec.run_id or 'nobody'}")
    taken_back = retractions.read(folder)
    return msgspec.structs.replace(
        entry,
        backend=spec.backend,
        accelerator=spec.accelerator,
        suite=spec.suite,
        name=spec.name,
        cases=len(spec.cases),
        shapes=_joined(case.shape.key for case in spec.cases),
        routes=_joined(case.route for case in spec.cases),
        dtypes=_joined(case.dtype for case in spec.cases),
        protocols=_joined(case.protocol for case in spec.cases),
        retracted="all" if retractions.WHOLE in taken_back else _joined(taken_back),
    )


def _joined(words: Iterable[str], by: str = " ") -> str:
    return by.join(dict.fromkeys(words))


def _journalled(entry: Entry, journal: Path) -> Entry:
    """Take the state from the journal: of the first part that is still to come, else the run's own."""
    last: dict[int, _Line] = {}
    for text in (_bytes(journal) or b"").splitlines():
        try:
            line = msgspec.json.decode(text, type=_Line)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            continue  # a killed writer left half a line
        last[line.part] = line
    coming = [line for part, line in sorted(last.items()) if part and line.state != "fetched"]
    decisive = coming[0] if coming else last.get(0) or last.get(1)
    if decisive is None:
        return msgspec.structs.replace(entry, state="", note="nothing was pushed")
    note = decisive.detail if decisive.state in ("refused", "held", "failed", "lost") else ""
    return msgspec.structs.replace(entry, state=decisive.state, note=note)


def _measured(entry: Entry, results: Path) -> Entry:
    text = _bytes(results)
    if text is None:
        return entry
    try:
        lines = csv.reader(text.decode().splitlines(keepends=True))
        head = next(lines)
        status, device = head.index("status"), head.index("device")
        rows = [(line[status], line[device]) for line in lines]
    except (csv.Error, ValueError, IndexError, StopIteration) as problem:
        said = "it is cut or altered" if isinstance(problem, (IndexError, StopIteration)) else problem
        raise _DamagedError(f"results.csv cannot be read: {said}") from problem
    return msgspec.structs.replace(
        entry,
        statuses=dict(Counter(status for status, _ in rows)),
        devices=_joined((device for _, device in rows if device), ", "),
    )


def _bytes(path: Path) -> bytes | None:
    """Return a file's bytes, None when there is no such file. A pipe or a monster is not opened."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:
        raise _DamagedError(f"{path.name} is no file of a run")
    return path.read_bytes()
