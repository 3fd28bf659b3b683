"""Recompute all that a published run says from its raw files, and say what that cannot vouch for.

manifest → kernel (its hashes, its files) → log (events, checks, seals) → records → rows → CSV, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from builder import manifest, reading, results, retractions, runs, stored
from builder.bundle import digest
from builder.disk import RUN_ID
from builder.errors import Exit, FerryError
from builder.publishing import REPORT
from builder.records import Records
from builder.results import Row
from builder.runs import Run

_SHOWN = 60
_HASHES = ("bundle_sha256", "harness_sha256", "model_sha256")


@dataclass
class Verdict:
    """What a verification came to: what holds, what was found, and what nobody here can vouch for."""

    run_id: str = ""
    held: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    caveats: list[str] = field(default_factory=list)
    unfinished: bool = False
    copies: str = ""
    served: str = "not shown: nobody has fetched log and source from the service itself here"

    @property
    def exit_code(self) -> Exit:
        """3 when something was found, 4 when the run is not whole, else 0."""
        return Exit.CASE_FAILED if self.found else Exit.INCOMPLETE if self.unfinished else Exit.OK

    def lines(self) -> Iterator[str]:
        """Yield it for people."""
        yield from (f"holds: {sentence}" for sentence in self.held)
        yield from (f"FOUND: {sentence}" for sentence in self.found)
        recorded = "no, see above" if self.found else "yes: every figure was recomputed from this raw log"
        yield f"Recorded: {recorded}"
        yield f"Served: {self.served}"
        yield "Re-run: not shown: a second run by somebody else, compared with this one, would show it"
        yield from (f"cannot vouch: {sentence}" for sentence in self.caveats)
        if self.found:
            yield f"the true copies: {self.copies}"


def verify(folder: Path, *, is_published: bool = True) -> Verdict:
    """Verify the run in a folder, which is only read. It raises nothing for what lies there.

    Only a published run has a manifest, and must not be of a simulated device.
    """
    verdict, run = Verdict(), Run(folder)
    if strange := sorted(path for path in folder.rglob("*") if path.is_symlink() or not _is_plain(path)):
        names = [path.relative_to(folder).as_posix() for path in strange[:_SHOWN]]
        verdict.found += [f"{name}: it is a link or a device; nothing was read" for name in names]
        return verdict
    if is_published:
        collect(verdict, "the manifest names every file and its SHA-256", manifest.differences(folder))
    try:
        verdict.run_id = run.spec.run_id
        if RUN_ID.fullmatch(folder.name) and folder.name != verdict.run_id:
            verdict.found.append(f"spec.json: it is of run {verdict.run_id}, not of {folder.name}")
        verdict.copies = _copies(run, verdict.run_id)
        records = reading.records_of(run)
    except FerryError as problem:
        verdict.found.append(_short(problem.message, folder))
        verdict.copies = verdict.copies or _copies(run, "")
        return verdict
    _of_log(verdict, run, records)
    rows = results.rows(records)
    collect(verdict, "CSVs and events come from the raw log, byte for byte", _derived(run, records, rows))
    collect(verdict, "each kernel is the one that was built, of the sources named", _kernels(run, records))
    if is_published and (simulated := [row.case_id for row in rows if row.is_simulated]):
        verdict.found.append(f"{len(simulated)} rows are of a simulated device, which measures nothing")
    verdict.caveats += _caveats(run, records, rows)
    return verdict


def _is_plain(path: Path) -> bool:
    return path.is_file() or path.is_dir()


def collect(verdict: Verdict, holds: str, found: Iterator[str]) -> None:
    """Add what was found to a verdict, or else the sentence that holds."""
    sentences = list(found)
    verdict.found += sentences[:_SHOWN]
    if len(sentences) > _SHOWN:
        verdict.found.append(f"and {len(sentences) - _SHOWN} more of the kind")
    if not sentences:
        verdict.held.append(holds)


def _short(sentence: str, folder: Path) -> str:
    """Name files from the folder on: where it lies here says nothing."""
    return sentence.replace(f"{folder}/", "")


def _of_log(verdict: Verdict, run: Run, records: Records) -> None:
    """What the log itself says: damage is a finding; what has not come yet makes the run unfinished."""
    verdict.unfinished = not records.complete
    problems = [_short(problem, run.folder) for problem in records.problems]
    verdict.found += problems if records.complete else []
    verdict.caveats += [] if records.complete else [f"unfinished: {problem}" for problem in problems]
    if not records.complete:
        verdict.caveats.append("the run is not whole: what is missing has no result")
    if records.complete and not problems:
        verdict.held.append("the log is whole: no event is missing or damaged, none is another run's")
    planned = {case.id for case in run.spec.cases}
    if strangers := sorted({record.case.id for record in records.cases} - planned):
        verdict.found.append(f"spec.json: the log has cases that it does not: {', '.join(strangers[:5])}")
    sealed = [attempt.number for attempt in records.attempts if attempt.sealed]
    if sealed and len(sealed) == len(records.attempts):
        verdict.held.append("each event is sealed with the key that its driver revealed at the end")


# --- derived files ----------------------------------------------------------------------------------------


def _derived(run: Run, records: Records, rows: Sequence[Row]) -> Iterator[str]:
    made = {"results.csv": results.results_csv(rows), "samples.csv": results.samples_csv(records)}
    if profile := results.profile_csv(records):
        made["profile.csv"] = profile
    for part in run.parts():
        made[f"parts/{part}/events.jsonl"] = records.events_jsonl(part)
    for name, text in made.items():
        try:
            there = (run.folder / name).read_text(encoding="utf-8")
        except (OSError, ValueError) as problem:
            yield f"{name}: it cannot be read: {type(problem).__name__}"
            continue
        if there != text:
            yield f"{name}{_first_difference(there, text)}"


def _first_difference(there: str, made: str) -> str:
    """Name the first line, and in a CSV the column, that is not what the log makes."""
    head = made.partition("\n")[0].split(",")
    for number, (ours, theirs) in enumerate(zip_longest(made.split("\n"), there.split("\n")), 1):
        if ours is None or theirs is None:
            return f":{number}: it has {'more' if ours is None else 'fewer'} lines than the log makes"
        if ours != theirs:
            return f":{number}: {_column(head, ours, theirs) or 'it is not what the log makes'}"
    return ": it is not what the log makes"


def _column(head: list[str], ours: str, theirs: str) -> str:
    """Name the first cell of a CSV's line that differs; empty where the line is no such line."""
    log, there = ours.split(","), theirs.split(",")
    if not len(log) == len(there) == len(head):
        return ""
    cells = zip(head, there, log, strict=True)
    return next(
        (f"{name} is {has!r}, the log makes {made!r}" for name, has, made in cells if has != made), ""
    )


# --- the kernel -------------------------------------------------------------------------------------------


def _kernels(run: Run, records: Records) -> Iterator[str]:
    if not run.parts():
        yield "parts: there is none"
    for part in run.parts():
        folder = run.part(part)
        try:
            facts: Any = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
            named = {name: str(facts[name]) for name in (*_HASHES, "kernel_sha256")}
            listed = {str(file["name"]): str(file["sha256"]) for file in facts["files"]}
            pushed = folder / {"notebook": "kernel.ipynb", "script": "kernel.py"}[facts["form"]]
        except (OSError, ValueError, KeyError, TypeError) as problem:
            yield f"parts/{part}/bundle.json: it cannot be read: {type(problem).__name__}"
            continue
        yield from (f"parts/{part}/{problem}" for problem in _kernel(run, part, pushed, named, listed))
        for attempt in records.attempts:
            if attempt.part == part and attempt.plan:
                terms = attempt.plan.terms
                if wrong := [name for name in _HASHES if getattr(terms, name) != named[name]]:
                    yield f"parts/{part}: attempt {attempt.number} ran another {wrong[0].partition('_')[0]}"


def _kernel(
    run: Run, part: int, pushed: Path, named: dict[str, str], listed: dict[str, str]
) -> Iterator[str]:
    """Check both forms of a part's kernel: their sources, and the hash of the one that was pushed."""
    for name in ("kernel.ipynb", "kernel.py"):
        kernel = run.part(part) / name
        try:
            files = stored.files_of(kernel)
            ref, order = json.loads(stored.texts_of(kernel)[stored.RUN]), stored.order_of(kernel)
            if digest(files) != named["bundle_sha256"]:
                yield f"{name}: its files are not the bundle that bundle.json names"
            if {file: hashlib.sha256(data).hexdigest() for file, data in files.items()} != listed:
                yield f"{name}: bundle.json lists other files, or other hashes of them"
            if (ref.get("run_id"), ref.get("part")) != (run.spec.run_id, part):
                yield f"{name}: it is of run {ref.get('run_id')}, part {ref.get('part')}"
            if order.cases != run.part_spec(part).cases:
                yield f"{name}: its order is not for the cases of spec.json"
            if kernel == pushed and stored.sha256_of(kernel) != named["kernel_sha256"]:
                yield f"{name}: its SHA-256 with RUN empty is not the one that bundle.json names"
        except (FerryError, ValueError, AttributeError) as problem:
            yield _short(str(problem), run.part(part))


# --- what remains open ------------------------------------------------------------------------------------


def _caveats(run: Run, records: Records, rows: Sequence[Row]) -> Iterator[str]:
    yield from retractions.read(run.folder).describe()
    if (run.folder / REPORT).exists():
        yield f"{REPORT} is as it was published, and was not drawn again"
    for attempt in records.attempts:
        if not attempt.sealed:
            why = attempt.unsealed or "it is older than seals"
            yield f"part {attempt.part}, attempt {attempt.number} is unsealed ({why}): a log can be edited"
    yield from _of_rows(rows)
    if run.spec.git_dirty:
        yield "the checkout had changes: the commit does not name these sources, the bundle's hash does"
    yield "who owns the machine or the account can make such a log: only a run of your own shows more"


def _of_rows(rows: Sequence[Row]) -> Iterator[str]:
    if any(row.protocol != "strict" for row in rows if row.status == "passed"):
        yield "under `official` timer and candidate share a process; for one you do not trust: `strict`"
    if any(row.flags.get("isolated", "").startswith("no") for row in rows):
        yield "some cases ran as the same user as their judge: not isolated"


def _copies(run: Run, run_id: str) -> str:
    """Say where the true copies may be had."""
    places = ["git, if this folder is in a checkout (`git log -p -- FOLDER`)"]
    own = runs.runs_root() / run_id
    if run_id and own.exists() and own.resolve() != run.folder.resolve():
        places.append(str(own))
    for part in run.parts():
        try:
            submission = run.submission(part)
        except FerryError:
            continue
        if submission:
            places.append(submission.url or f"{submission.backend} ({submission.reference})")
    return "; ".join([*places, "whoever published it"])
