"""What past runs tell of their cases, for whoever plans the next run: how long, where, with which code.

`cases.json` in a run's folder, a row a case, derived from the raw logs like the CSVs and never needed: of a
run without one (a published one, an older one) the logs are read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from builder import index, reading, retractions, runs
from builder.disk import atomic_write
from builder.errors import FerryError
from builder.records import CaseRecord, Records
from builder.runs import Run
from harness.events import is_simulated, to_plain
from harness.shapes import Case, cost_s

FILE = "cases.json"
LOOKED_AT = 60  # runs, the newest first
READ_ANEW = 20  # of those, runs whose logs have to be read


class Past(msgspec.Struct, frozen=True, gc=False):
    """One case of a past run. `case` and `terms` are hashes of all that was asked for.

    `seconds` is what it took on its card and `cost_s` what `harness.shapes.cost_s` had said; `imported` are
    the model's files that its worker imported, where it has told, and `code` their hash.
    """

    run_id: str
    case_id: str
    case: str
    terms: str
    shape: str
    status: str
    cost_s: float
    seconds: float | None = None
    backend: str = ""
    device: str = ""
    versions: str = ""
    harness_sha256: str = ""
    model_sha256: str = ""
    imported: tuple[str, ...] = ()
    code: str = ""
    at: str = ""
    is_trusted: bool = True
    mismatch: bool = False

    @property
    def is_simulated(self) -> bool:
        """Whether its device was made up."""
        return is_simulated(self.device)


def case_sha256(case: Case) -> str:
    """Return the hash of all that a case asks for: sizes, route, levers, dtype, protocol, counts, options."""
    plain = to_plain(case) | {"levers": sorted(case.levers.items())}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


def write(run: Run, records: Records) -> None:
    """Write a run's rows from its records."""
    atomic_write(run.folder / FILE, msgspec.json.encode(list(_rows(run, records))))


def _rows(run: Run, records: Records) -> Iterator[Past]:
    places = {part: run.part_spec(part).backend for part in run.parts()}
    return (_row(record, places.get(record.part, "")) for record in records.cases if not record.origin)


def _row(record: CaseRecord, backend: str) -> Past:
    case, plan, device = record.case, record.plan, record.device
    flags = record.done.flags if record.done else {}
    return Past(
        run_id=plan.ref.run_id,
        case_id=case.id,
        case=case_sha256(case),
        terms=terms_sha256(plan.terms.seeds, plan.terms.target_ci, plan.terms.profile, plan.terms.against),
        shape=case.shape.key,
        status=record.status,
        cost_s=cost_s(case, plan.terms.seeds),
        seconds=record.took_s,
        backend=backend,
        device=device.name if device else "",
        versions=versions(device.torch, device.triton, device.driver) if device else "",
        harness_sha256=plan.terms.harness_sha256,
        model_sha256=plan.terms.model_sha256,
        at=plan.started_at,
        is_trusted=not record.unsealed,
        mismatch="mismatch" in flags,
    )


def terms_sha256(seeds: int, target_ci: float, profile: bool, against: str) -> str:
    """Return the hash of what an order asks for of every case, as far as it bears on the result."""
    return hashlib.sha256(json.dumps([seeds, target_ci, profile, against]).encode()).hexdigest()[:16]


def versions(torch: str, triton: str, driver: str) -> str:
    """Return torch, Triton and the driver's major version as one word."""
    return f"torch {torch}, triton {triton}, driver {driver.partition('.')[0]}"


def gather(shapes: Iterable[str], root: Path | None = None) -> list[Past]:
    """Return what the newest runs tell of cases of these shapes, the newest first; retracted ones are out."""
    wanted = frozenset(shapes)
    root = runs.runs_root() if root is None else root
    entries = [entry for entry in index.entries(root) if wanted.intersection(entry.shapes.split())]
    found: list[Past] = []
    anew = READ_ANEW
    for entry in entries[:LOOKED_AT]:
        run = Run(root / entry.place)
        rows = _kept(run)
        if rows is None and anew and entry.statuses:
            anew, rows = anew - 1, _read(run)
        taken_back = retractions.read(run.folder)
        found += [row for row in rows or () if row.shape in wanted and not taken_back.why(row.case_id)]
    return found


def _kept(run: Run) -> Sequence[Past] | None:
    with contextlib.suppress(OSError, ValueError, msgspec.MsgspecError, RecursionError):
        return msgspec.json.decode((run.folder / FILE).read_bytes(), type=list[Past])
    return None


def _read(run: Run) -> Sequence[Past]:
    with contextlib.suppress(FerryError, OSError):
        return tuple(_rows(run, reading.of_run(run).records))
    return ()
