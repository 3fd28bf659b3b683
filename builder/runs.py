"""Run folders: what is on disk of a run, and the journal of what became of it.

    runs/<run id>/   spec.json  journal.jsonl  results.csv  samples.csv  (profile.csv)
      parts/<n>/     kernel.ipynb  kernel.py  kernel-metadata.json  bundle.json  submission.json
                     log.raw  outputs/  (log.2.raw, outputs.2/, … for further imports)  outputs.json
                     events.jsonl  (spec.json where it has not all of the run's cases)

Raw files are written once. Derived ones (events, CSVs) are written whole from them, again and again.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from builder.backends import State, Submission
from builder.disk import PUBLISHED
from builder.disk import RUN_ID as RUN_ID
from builder.disk import atomic_write as atomic_write
from builder.disk import runs_root as runs_root
from builder.errors import UsageError
from builder.journal import Entry as Entry
from builder.journal import Journal
from builder.journal import now_text as now_text
from builder.spec import RunSpec
from harness.events import from_plain, to_plain
from harness.shapes import Case

if TYPE_CHECKING:
    from filelock import FileLock

T = TypeVar("T")


def read_json(cls: type[T], path: Path) -> T:
    """Return what `to_plain` had made of a `cls`. UsageError when the file is no such thing."""
    try:
        return from_plain(cls, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError) as problem:
        raise UsageError(
            f"{path} cannot be read as a {cls.__name__}: {problem}", "put the file back as ferry wrote it"
        ) from problem


def new_run_id() -> str:
    """Return a fresh run id, `YYYYMMDD-HHMMSS-<6 hex>` in UTC.

    The digits are how far the second has gone, so that run ids sort by age, also those of one second.
    """
    second, rest_ns = divmod(time.time_ns(), 10**9)
    return f"{datetime.fromtimestamp(second, UTC):%Y%m%d-%H%M%S}-{(rest_ns << 24) // 10**9:06x}"


def slug(run_id: str, part: int) -> str:
    """Return title and slug of a part's kernel: Kaggle makes the slug from the title, so they are one."""
    return f"ferry-{run_id}-{part}"


@dataclass(frozen=True)
class Run:
    """One run's folder."""

    folder: Path

    @property
    def id(self) -> str:
        """The run id, which is the folder's name."""
        return self.folder.name

    @property
    def spec(self) -> RunSpec:
        """What was asked for. UsageError when the file is no spec."""
        return read_json(RunSpec, self.folder / "spec.json")

    def part_spec(self, number: int) -> RunSpec:
        """Return what a part was asked for: a resumed or dealt one has fewer cases than the run."""
        if number not in self._part_specs:
            own = self.part(number) / "spec.json"
            if not own.exists():
                return self.spec
            self._part_specs[number] = read_json(RunSpec, own)
        return self._part_specs[number]

    @functools.cached_property
    def _part_specs(self) -> dict[int, RunSpec]:
        """Those that were read: they never change."""
        return {}

    def planned(self) -> dict[int, tuple[Case, ...]]:
        """Return each part's planned cases; under 0 all that are to be dealt, where parts have some each."""
        spec = self.spec
        every = {0: spec.cases} if spec.is_dealt else {}
        return every | {part: self.part_spec(part).cases for part in self.parts()}

    def part(self, number: int) -> Path:
        """Return the folder of part `number`."""
        return self.folder / "parts" / str(number)

    def parts(self) -> list[int]:
        """Return the numbers of the parts there are."""
        return sorted(
            int(path.name) for path in (self.folder / "parts").glob("[1-9]*") if path.name.isdecimal()
        )

    def logs(self, parts: Sequence[int] | None = None) -> list[Path]:
        """Return every raw log and events file of the run, or of some parts: what its rows are made from."""
        found = []
        for number in self.parts() if parts is None else parts:
            part = self.part(number)
            found += sorted(part.glob("log*.raw")) + sorted(part.glob("outputs*/ferry-events*.jsonl"))
        return found

    # --- the journal ---

    @functools.cached_property
    def _journal(self) -> Journal:
        return Journal(self.folder / "journal.jsonl")

    def record(self, state: State | str, part: int = 0, detail: str = "") -> None:
        """Append a change of state, on disk before this returns."""
        with self.lock():
            self._journal.append(part, str(state), detail)
            os.utime(self.folder)  # whoever looks for changes looks at the folder alone

    def journal(self, part: int | None = None) -> list[Entry]:
        """Return the journal's entries, or a part's alone; a line cut by a kill is left out."""
        return self._journal.entries() if part is None else self._journal.of(part)

    def state(self, part: int) -> str:
        """Return the last state that the journal has for `part`, or an empty string."""
        return self._journal.state(part)

    def told(self, part: int) -> State:
        """Return the last state that a part's place has told: what came of fetching is none of its."""
        return self._journal.told(part)

    def has_come(self, part: int) -> bool:
        """Whether log and outputs of `part` are here, or nobody needs them: other parts have its cases."""
        return self.state(part) in ("fetched", "withdrawn")

    def coming(self) -> list[int]:
        """Return the parts whose log and outputs are not here yet."""
        return [part for part in self.parts() if not self.has_come(part)]

    def is_unpushed(self, part: int) -> bool:
        """Whether no place has taken a part, nor will unless `ferry resume` pushes it."""
        no = (State.REFUSED, State.HELD, State.CANCELLED)
        return self.state(part) in no and self.submission(part) is None

    @property
    def is_probe(self) -> bool:
        """Whether it is a probe, which nobody means who names no run."""
        with contextlib.suppress(UsageError):  # a damaged run is not hidden
            return self.spec.is_probe
        return False

    @property
    def is_open(self) -> bool:
        """Whether cases of it may still be dealt to new parts."""
        return self.spec.is_dealt and self.state(0) not in ("dealt", "stopped", "parsed")

    @property
    def is_finished(self) -> bool:
        """Whether nothing more is to come: its rows have been written, or no place took it, nor will."""
        return self.state(0) == "parsed" or all(map(self._is_gone, self.parts()))

    def _is_gone(self, part: int) -> bool:
        """Whether no place has a part, nor will."""
        if self.state(part) == "withdrawn":
            return self.submission(part) is None
        return self.is_unpushed(part) and self.state(part) != State.HELD

    @contextlib.contextmanager
    def lock(self, name: str = "journal") -> Iterator[None]:
        """Hold one of the run's locks: one process at a time does what the name says."""
        from filelock import FileLock

        if name not in self._locks:
            self._locks[name] = FileLock(self.folder / f".{name}.lock")
        with self._locks[name]:
            yield

    @functools.cached_property
    def _locks(self) -> dict[str, FileLock]:
        """Those that were taken: a run of many parts takes each very often."""
        return {}

    # --- submissions ---

    def submission(self, part: int) -> Submission | None:
        """Return what part `part` was accepted as, or None when no acceptance is on disk."""
        path = self.part(part) / "submission.json"
        return read_json(Submission, path) if path.exists() else None

    def write_submission(self, part: int, submission: Submission) -> None:
        """Put an acceptance on disk."""
        atomic_write(self.part(part) / "submission.json", json.dumps(to_plain(submission), indent=2) + "\n")


# --- where runs are ---------------------------------------------------------------------------------------


def place(folder: Path) -> str:
    """Return where a folder is among the runs: that holds when they move to another disk or machine."""
    root = runs_root().resolve()
    if not folder.resolve().is_relative_to(root):
        raise UsageError(f"{folder} is not among the runs in {root}", "let FERRY_RUNS name their folder")
    return folder.resolve().relative_to(root).as_posix()


@contextlib.contextmanager
def create(spec: RunSpec) -> Iterator[Run]:
    """Make a new run's folder; it appears under its name when the block ends well, else never."""
    root = runs_root()
    root.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".new-", dir=root))
    try:
        draft.chmod(0o755)
        atomic_write(draft / "spec.json", json.dumps(to_plain(spec), indent=2) + "\n")
        yield Run(draft)
        draft.rename(root / spec.run_id)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def all_runs() -> list[Run]:
    """Return all runs, the newest first."""
    return _runs_in(runs_root())


def _runs_in(root: Path) -> list[Run]:
    folders = [path for path in root.glob("*") if RUN_ID.fullmatch(path.name)] if root.exists() else []
    return [Run(folder) for folder in sorted(folders, key=lambda path: path.name, reverse=True)]


def published_runs() -> list[Run]:
    """Return the runs that are kept as evidence, the newest first."""
    return _runs_in(runs_root() / PUBLISHED)


def find(prefix: str | None) -> Run:
    """Return the run whose id begins with `prefix`; without one, the last unfinished run.

    A published run is found when no other fits. Raises UsageError when none fits or several do; then they
    are listed.
    """
    if prefix and (Path(prefix) / "spec.json").exists():
        return Run(Path(prefix).resolve())
    if prefix:
        found = [run for run in all_runs() if run.id.startswith(prefix)]
        found = found or [run for run in published_runs() if run.id.startswith(prefix)]
        missing = f"no run in {runs_root()} begins with {prefix!r}"
    else:
        found = [run for run in all_runs() if not run.is_finished and run.parts() and not run.is_probe]
        missing = f"no run in {runs_root()} is unfinished"
    if not found:
        raise UsageError(missing, "`ferry ls` lists the runs")
    if prefix and len(found) > 1:
        raise UsageError(f"several runs fit: {', '.join(run.id for run in found)}", "name one of them")
    return found[0]
