"""Fetch source and log of a run from the service itself, and show that the source is the bundle that ran."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from builder import reading, results, runs, stored
from builder.backends import Submission
from builder.bundle import digest
from builder.errors import FerryError, UsageError
from builder.records import Records, read_records
from builder.verifying import Verdict, collect


class Serves(Protocol):
    """A place that hands out again what was pushed to it."""

    def fetch_source(self, submission: Submission, folder: Path) -> Path:
        """Write the source of a submission into a folder; return its file."""

    def fetch_log(self, submission: Submission, target: Path) -> None:
        """Write the whole raw log to `target`."""


def serve(reference: str, place: Serves, folder: Path) -> Verdict:
    """Verify what a service has of `owner/slug/version`, using `folder` for what it sends.

    UsageError for what is no reference; what the place raises when it does not answer.
    """
    owner, slug, version = [*reference.split("/"), "", "", ""][:3]
    if not (owner and slug and version.isdecimal() and reference.count("/") == 2):
        raise UsageError(f"{reference!r} is no OWNER/SLUG/VERSION", "for example kaggle:alice/ferry-…-1/1")
    submission = Submission("kaggle", reference, slug)
    kernel = place.fetch_source(submission, folder)
    place.fetch_log(submission, folder / "log.raw")
    verdict = Verdict(copies=f"https://www.kaggle.com/code/{owner}/{slug}")
    try:
        ref = json.loads(stored.texts_of(kernel)[stored.RUN])
        verdict.run_id = str(ref["run_id"])
        bundle = digest(stored.files_of(kernel))
        records = read_records([folder / "log.raw"], verdict.run_id)
        own = list(_of_kernel(kernel, ref["part"], bundle, records))
    except (FerryError, ValueError, KeyError, TypeError) as problem:
        verdict.found.append(str(problem).replace(f"{folder}/", ""))
        return verdict
    collect(verdict, f"the service's source is bundle {bundle}, and its log is of that bundle", iter(own))
    collect(verdict, "the log is whole", iter(records.problems))
    verdict.unfinished = not records.complete
    if not verdict.found:
        verdict.served = "yes: log and source came from the service itself, and the source is this bundle"
    _beside_own(verdict, bundle, records)
    verdict.caveats.append("the service has both from one account: its owner wrote source and candidate")
    return verdict


def _of_kernel(kernel: Path, part: int, bundle: str, records: Records) -> Iterator[str]:
    """Yield what speaks against the log being of this source."""
    order = stored.order_of(kernel)
    if order.terms.bundle_sha256 != bundle:
        yield f"{kernel.name}: its files are not the bundle that its order names"
    attempts = [attempt for attempt in records.attempts if attempt.part == part]
    if not attempts:
        yield f"the log has nothing of part {part}"
    for attempt in attempts:
        if attempt.plan and attempt.plan.terms.bundle_sha256 != bundle:
            yield f"attempt {attempt.number} in the log is of another bundle than the source"
        if any(case not in order.cases for case in attempt.planned.values()):
            yield f"attempt {attempt.number} in the log has cases that the source does not ask for"


def _beside_own(verdict: Verdict, bundle: str, records: Records) -> None:
    """Hold the run that lies here, if one does, against what the service has."""
    try:
        own = reading.of_run(runs.find(verdict.run_id))
    except FerryError:
        verdict.caveats.append("the run is not here, so that nothing was compared with it")
        return
    hashes = {row.bundle_sha256 for row in own.rows if row.bundle_sha256}
    if hashes - {bundle}:
        verdict.found.append(f"the run here is of another bundle, {', '.join(sorted(hashes))}")
    served = {row.case_id: row for row in results.rows(records)}
    differing = [row.case_id for row in own.rows if row.case_id in served and row != served[row.case_id]]
    holds = f"the figures of the run here are those of the service's log, {len(served)} cases"
    collect(verdict, holds, (f"{case_id}: the run here has other figures" for case_id in differing))
