"""Results that a run takes over from others: their logs lie in its folder, and its rows rest on these."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from builder import runs
from builder.records import CaseRecord, Records, read_records
from builder.runs import Run
from builder.spec import RunSpec
from harness.events import FINAL_STATUSES

FOLDER = "known"


def take_over(known: Mapping[str, str], folder: Path) -> None:
    """Put the logs of the runs that cases are known from into a run's folder: its rows rest on these."""
    for run_id in sorted({*known.values()}):
        source = runs.find(run_id)
        for number, log in enumerate([*source.logs(), *(source.folder / FOLDER).glob(f"{run_id}/*")], 1):
            target = folder / FOLDER / run_id / f"{number}.raw"
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(log, target)
            except OSError:  # another disk, or one without links
                shutil.copyfile(log, target)


def records_of(run: Run, spec: RunSpec) -> dict[str, CaseRecord]:
    """Return the records that a run has taken over, by case."""
    found: dict[str, CaseRecord] = {}
    for run_id in sorted({*spec.known.values()}):
        logs = sorted((run.folder / FOLDER / run_id).glob("*.raw"))
        wanted = {case for case, source in spec.known.items() if source == run_id}
        for record in read_records(logs, run_id).cases if logs else ():
            if record.case.id in wanted and record.status in FINAL_STATUSES:
                found[record.case.id] = replace(record, part=0, origin=run_id)
    return found


def merged(records: Records, run: Run, spec: RunSpec) -> Records:
    """Return a run's records, with those that it has taken over where it has no result of its own."""
    if not spec.known:
        return records
    known = records_of(run, spec)
    cases = (one if one.status in FINAL_STATUSES else known.get(one.case.id, one) for one in records.cases)
    return replace(records, cases=tuple(cases))
