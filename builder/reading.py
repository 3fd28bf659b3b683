"""What people name when they mean a run's results: an id, a folder, a log; and its rows, from raw logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from builder import results, retractions, runs, takenover
from builder.errors import FerryError, UsageError
from builder.log import refuse_no_log
from builder.records import CaseRecord, Records, read_records
from builder.results import Row
from builder.retractions import Retracted
from builder.runs import Run
from builder.terminal import one_line

_LOGS = ("*.raw", "*.log", "*.jsonl")


@dataclass(frozen=True)
class Reading:
    """A run as its raw logs tell it. `name` is its id, or its log's name; `run` is None for bare logs."""

    name: str
    records: Records
    rows: tuple[Row, ...]
    run: Run | None = None

    @property
    def cases(self) -> Iterator[tuple[CaseRecord, Row]]:
        """Yield each planned case with its row."""
        return zip(self.records.cases, self.rows, strict=True)

    @property
    def retracted(self) -> Retracted:
        """What was taken back of it; bare logs say nothing of that."""
        return retractions.read(self.run.folder) if self.run else Retracted()


def read(word: str) -> Reading:
    """Read the run that a word names: a run's id or its beginning, published or not, a folder, or one log.

    Rows are made anew from raw logs, so that a CSV is not needed, nor believed. UsageError when nothing is
    there, or what is there is no run's.
    """
    path = Path(word)
    if path.is_file():
        refuse_no_log(path)
        return _of_logs(one_line(path.name), [path])
    if path.is_dir() and not (path / "spec.json").exists():
        return _of_folder(path)
    return of_run(runs.find(word))


def read_all(words: Iterable[str]) -> tuple[list[Reading], list[str]]:
    """Read the runs that words name, a folder of runs among them; what cannot be read becomes a sentence.

    A mixed folder is read as far as it goes. A word that a person has named must be a run: UsageError.
    """
    found: list[Reading] = []
    problems: list[str] = []
    for word in words:
        folders = [path.parent for path in sorted(Path(word).glob("*/spec.json"))] if word else []
        if not folders:
            found.append(read(word))
        for folder in folders:
            try:
                found.append(of_run(Run(folder)))
            except (FerryError, OSError) as problem:
                problems.append(f"{folder.name}: {problem}")
    return found, problems


def of_run(run: Run) -> Reading:
    """Read a run's folder. UsageError when it has no logs, or they are not its own."""
    if not (run.logs() or run.spec.known):
        raise UsageError(f"run {run.id} has no log yet", f"next: ferry pull {run.id}")
    records = records_of(run)
    return Reading(run.id, records, tuple(results.rows(records)), run)


def records_of(run: Run) -> Records:
    """Return what a run's raw logs say of each of its cases. UsageError when one cannot be read."""
    spec = run.spec
    records = read_records(run.logs(), spec.run_id, run.planned(), spec.left_out)
    return takenover.merged(records, run, spec)


def of_part(run: Run, part: int) -> Records | None:
    """Return what the logs of one part say of its cases; None when there are none."""
    logs = run.logs([part])
    return read_records(logs, run.id, {part: run.part_spec(part).cases}) if logs else None


def _of_folder(folder: Path) -> Reading:
    """Read a folder that is no run's own, such as one with a downloaded log and outputs."""
    logs = sorted(path for pattern in _LOGS for path in folder.rglob(pattern) if path.is_file())
    if not logs:
        raise UsageError(f"{folder} holds neither a run nor a log", "`ferry ls` lists the runs")
    return _of_logs(one_line(folder.name), logs)


def _of_logs(name: str, logs: list[Path]) -> Reading:
    records = read_records(logs)
    if not records.cases:
        raise UsageError(f"there is no case in {name}", f"`ferry parse {logs[0]}` says what it is")
    return Reading(records.run_id or name, records, tuple(results.rows(records)))
