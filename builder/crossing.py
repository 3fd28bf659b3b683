"""The whole way of a run, one step after another, each redone from the file before it.

push:   spec → bundle → kernel → rehearsal → run folder → submission
pull:   (submission, if a kill came between) → wait → log and outputs → records → rows
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from builder import (
    announcing,
    backends,
    history,
    manifest,
    outputs,
    reading,
    results,
    retractions,
    retry,
    runs,
    submission,
)
from builder.backends import Backend, State, Status
from builder.build import write_build
from builder.clock import Clock
from builder.errors import Exit, UsageError, about, worst
from builder.log import refuse_no_log
from builder.outputs import EVERYTHING, Wanted
from builder.records import Records, read_records
from builder.rehearsal import rehearse
from builder.results import Row
from builder.retractions import Retracted
from builder.runs import Run
from builder.spec import RunSpec
from builder.waiting import Watch, until_over
from harness.events import RunRef

FIRST_PART = 1


@dataclass(frozen=True)
class Outcome:
    """What a pull or a parse came to."""

    records: Records
    rows: list[Row]
    exit_code: Exit
    files: list[Path]
    notes: tuple[str, ...] = ()
    retracted: Retracted = field(default_factory=Retracted)


def push(
    spec: RunSpec,
    backend: Backend,
    clock: Clock,
    tell: Callable[[str], None],
    rehearsal: bool = False,
    when_free: bool = False,
) -> Run:
    """Build, rehearse, say what will happen, and submit; return the run once the place has accepted it.

    Raises RefusedHereError when nothing was sent, and what the backend raises when it said no.
    """
    backend.account()  # without credentials nothing is begun
    commit, dirty = git_state()
    spec = replace(
        spec,
        run_id=runs.new_run_id(),
        created_at=runs.now_text(),
        git_commit=commit,
        git_dirty=dirty,
        timeout_s=announcing.timeout_s(spec, backend.limits()),
    )
    ref = RunRef(spec.run_id, FIRST_PART, commit, dirty)
    return send(
        spec, lambda folder: write_build(spec, folder, ref), backend, clock, tell, rehearsal, when_free
    )


def send(
    spec: RunSpec,
    write: Callable[[Path], object],
    backend: Backend,
    clock: Clock,
    tell: Callable[[str], None],
    rehearsal: bool = False,
    when_free: bool = False,
) -> Run:
    """Make the run of a spec that has its id, with the kernel that `write` puts into a folder, and submit it.

    It raises what `push` raises.
    """
    with runs.create(spec) as draft:
        write(draft.part(FIRST_PART))
        if rehearsal:
            tell(rehearse(draft.part(FIRST_PART) / "kernel.py").detail)
    run = Run(runs.runs_root() / spec.run_id)
    with about(run.id), submission.telling_of(run, FIRST_PART):
        for sentence in announcing.announce(spec, backend, clock):
            tell(sentence)
        submit = submission.submit_when_free if when_free else submission.submit
        submit(run, FIRST_PART, backend, clock, tell)
    return run


def git_state() -> tuple[str, bool]:
    """Return the commit of the checkout that the user is in and whether it has changes; empty outside one."""
    try:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
        status = subprocess.run(["git", "status", "--porcelain"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "", False
    return commit.stdout.strip(), bool(status.stdout.strip())


def watch(
    places: Mapping[Run, Backend], clock: Clock, patience_s: float
) -> Iterator[tuple[Watch, Status | bytes]]:
    """Wait until every part of every run is over; yield what is new of each. See `until_over`."""
    watches = []
    for run, backend in places.items():
        for part in (part for part in _sent(run) if not (run.has_come(part) or run.told(part).is_over)):
            accepted = submission.accepted(run, part, backend, clock)
            watches.append(Watch(run, part, accepted, backend, clock, patience_s))
    return until_over(watches)


def _sent(run: Run) -> list[int]:
    """Return the parts without those that no place took, unless there is no other: then it is to be told."""
    sent = [part for part in run.parts() if not run.is_unpushed(part)]
    return sent or run.parts()


def fetch(run: Run, backend: Backend, clock: Clock, wanted: Wanted = EVERYTHING) -> Status:
    """Bring what is over and not here yet; return where the last part that was asked for stands."""
    now = Status(State.DONE)
    for part in _sent(run):
        left_out = outputs.report(run.part(part)).left_out
        if run.has_come(part) and not (left_out and wanted.asks_for(left_out)):
            continue
        accepted = submission.accepted(run, part, backend, clock)
        now = Status(run.told(part))
        if not now.state.is_over:
            now = retry.read(lambda: submission.status(run, part, accepted, backend), clock)  # noqa: B023
        if now.state.is_over:
            submission.fetch(run, part, accepted, backend, clock, wanted)
    return now


def parse(run: Run) -> Outcome:
    """Make events and CSVs of a run from its raw logs, as often as wanted; the same bytes each time.

    A published run's manifest follows what was made anew, and nothing else of it is written.
    """
    with run.lock("fetch"):
        records = reading.records_of(run)
        events = [run.part(part) / "events.jsonl" for part in run.parts()]
        for part, path in zip(run.parts(), events, strict=True):
            runs.atomic_write(path, records.events_jsonl(part))
        paths = [run.folder / "results.csv", run.folder / "samples.csv"]
        rows = results.write(records, *paths)
        if profile := results.profile_csv(records):
            paths.append(run.folder / "profile.csv")
            runs.atomic_write(paths[-1], profile)
        brought = [outputs.report(run.part(part)) for part in run.parts() if run.state(part) != "withdrawn"]
        missing = any(one.missing for one in brought)
        code = worst(results.exit_code(records, rows), Exit.INFRASTRUCTURE if missing else Exit.OK)
        notes = [sentence for one in brought for sentence in one.sentences()]
        if (run.folder / manifest.NAME).exists():
            notes += _relisted(run, [*events, *paths])
        else:
            history.write(run, records)
            if run.state(0) != "parsed" and not (run.coming() or run.is_open):
                run.record("parsed")
        return Outcome(records, rows, code, paths, tuple(notes), retractions.read(run.folder))


def _relisted(run: Run, made: Sequence[Path]) -> Iterator[str]:
    """Let a published run's manifest name what was made anew, and say so where that is new."""
    names = [path.relative_to(run.folder).as_posix() for path in made]
    if changed := manifest.refresh(run.folder, names):
        yield f"{manifest.NAME} follows {', '.join(changed)}, which are not as they were published"


def parse_logs(logs: Sequence[Path], target: Path | None, run: Run | None = None) -> Outcome:
    """Parse logs from anywhere; the CSV goes to `target` when one is given, which may be none of the logs.

    Logs that are known to be of `run` have a row for each of its planned cases, whatever they have lost.
    """
    if target and any(target.exists() and target.samefile(log) for log in logs):
        raise UsageError(f"{target} is the log itself", "name another file for the CSV")
    records = read_records(logs, run.id, run.planned()) if run else read_records(logs)
    rows = results.rows(records)
    if target:
        results.write(records, target)
    retracted = retractions.read(run.folder) if run else Retracted()
    files = [target] if target else []
    return Outcome(records, rows, results.exit_code(records, rows), files, retracted=retracted)


def import_log(run: Run, log: Path, outputs: Sequence[Path]) -> Outcome:
    """Take in the log (and output files or folders) of a kernel that somebody carried by hand, and parse.

    Raises UsageError, and copies nothing, when the run's place brings its log itself, and when the log is
    of another run or another execution, or is no log.
    """
    if not backend_of(run).limits().by_hand:
        raise UsageError(f"run {run.id} is on {run.spec.backend}, not by hand", f"next: ferry pull {run.id}")
    refuse_no_log(log)
    arrived = read_records([log], run.id)
    part = max({attempt.part for attempt in arrived.attempts} & {*run.parts()}, default=FIRST_PART)
    folder = run.part(part)
    with run.lock("fetch"):
        _refuse_another_execution(arrived, read_records(run.logs(), run.id))
        number = next(n for n in range(1, 10_000) if not (folder / _numbered("log", n, ".raw")).exists())
        if outputs:
            _copy_outputs(outputs, folder / _numbered("outputs", number, ""))
        runs.atomic_write(folder / _numbered("log", number, ".raw"), log.read_bytes())
    run.record(State.DONE, part, f"imported {log.name}")
    run.record("fetched", part)
    return parse(run)


def _refuse_another_execution(arrived: Records, known: Records) -> None:
    """Two executions of one kernel from its start claim the same events, and would cost each other's rows."""
    plans = {(attempt.part, attempt.number): attempt.plan for attempt in known.attempts if attempt.plan}
    for attempt in arrived.attempts:
        if attempt.plan and plans.get((attempt.part, attempt.number), attempt.plan) != attempt.plan:
            raise UsageError(
                f"the log is of another execution of the kernel than the one that run {known.run_id} has",
                "a second measurement is a run of its own, by ferry push; what the first one lacks is run by "
                "python3 kernel.py --continue ferry-events.jsonl",
            )


def _numbered(stem: str, number: int, suffix: str) -> str:
    return f"{stem}{suffix}" if number == 1 else f"{stem}.{number}{suffix}"


def _copy_outputs(outputs: Sequence[Path], target: Path) -> None:
    draft = target.with_name(f".{target.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    for source in outputs:
        if source.is_dir():
            shutil.copytree(source, draft, dirs_exist_ok=True)
        elif source.exists():
            shutil.copy2(source, draft)
        else:
            raise UsageError(f"there are no outputs at {source}")
    draft.rename(target)


def backend_of(run: Run, part: int | None = None) -> Backend:
    """Return the backend that a run went to, or one of its parts."""
    return backends.load((run.spec if part is None else run.part_spec(part)).backend)
