"""Lines to records: the events of one run out of its logs, checked, merged, and what they amount to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.attempts import Attempt
from builder.caserecords import CaseRecord as CaseRecord
from builder.caserecords import Planned, case_records
from builder.claims import Which, more, settle
from builder.errors import UsageError
from builder.eventscan import scan
from builder.log import LogReader
from builder.logforms import Form
from builder.terminal import printable
from harness.events import (
    Device,
    Event,
    Hardware,
    Name,
)

_TAIL_LINES = 40
_SHOWN = 20  # of problems of one kind in one log


@dataclass(frozen=True)
class Records:
    """What the logs of one run say.

    `runs` are the ids of all runs that were met, `attempts` this run's, oldest first in each part; `cases`
    its planned cases in the plan's order. `tail` is the end of what the program wrote, ready to show.
    `events` are all of this run's that nothing contradicts, each once, by part, attempt and number.
    """

    run_id: str
    runs: tuple[str, ...]
    attempts: tuple[Attempt, ...]
    cases: tuple[CaseRecord, ...]
    problems: tuple[str, ...] = ()
    tail: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()

    def events_jsonl(self, part: int) -> str:
        """Return the text of a part's `events.jsonl`: a log of its events alone, each as it was sent."""
        return "".join(f"{event.line}\n" for event in self.events if event.name.part == part)

    @property
    def latest(self) -> Attempt | None:
        """The latest attempt of the latest part that a row is from: it was to bring whatever was missing.

        A part whose cases another has brought may be cut short.
        """
        telling = {record.part for record in self.cases}
        own = [attempt for attempt in self.attempts if attempt.part in telling]
        return next(reversed(own or self.attempts), None)

    @property
    def complete(self) -> bool:
        """Whether nothing is missing: the latest attempt is whole and each case has a result.

        Logs that hold other runs' events too are not what they should be, and nothing in them is.
        """
        results = all(case.status not in ("unknown", "not_run") for case in self.cases)
        latest = self.latest
        asked = bool(self.cases) or (latest is not None and latest.is_probe)
        whole = latest.is_whole if latest else all(case.origin for case in self.cases)
        return asked and results and whole and not self.foreign

    @property
    def hardware(self) -> Hardware | None:
        """What machine the latest attempt found, if it has said so."""
        return self.latest.hardware if self.latest else None

    @property
    def foreign(self) -> tuple[str, ...]:
        """The ids of other runs whose events were met."""
        return tuple(run for run in self.runs if run != self.run_id)

    @property
    def end_reason(self) -> str:
        """Why the latest attempt ended; empty when it has not said so."""
        return self.latest.end.reason if self.latest and self.latest.end else ""

    @property
    def devices(self) -> dict[tuple[int, int, int], Device]:
        """The devices by part, attempt and index."""
        return {
            (attempt.part, attempt.number, index): device
            for attempt in self.attempts
            for index, device in attempt.devices.items()
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """What the device side had to say that no case holds."""
        return tuple(text for attempt in self.attempts for text in attempt.notes)


def read_records(
    sources: Sequence[Path],
    run_id: str = "",
    planned: Planned | None = None,
    left_out: Mapping[str, str] | None = None,
) -> Records:
    """Read one or several logs and events files of a run, in any form and order, and merge them.

    `planned` are cases by part that are known to belong to the run, so that they have a record even when the
    log has lost its plan or is of another run; those of part 0 are all that the run is to deal, of which
    `left_out` says which will not be, and why. UsageError when a file cannot be read, when there are several
    runs and `run_id` does not choose one, or when there is not the one it names and nothing is `planned`.
    """
    merged = _Merged()
    for source in sources:
        merged.read(source)
    if not (run_id and planned):
        run_id = _chosen(run_id, merged.runs)
    settled = settle(merged.claims(run_id))
    attempts = _attempts(settled.events, settled.sealed)
    cases = tuple(case_records(run_id, attempts, planned or {}, left_out or {}))
    strangers = [f"there are events of another run, {run}" for run in merged.runs if run != run_id]
    problems = (*merged.problems, *settled.problems, *strangers, *_missing(attempts, planned or {}))
    return Records(run_id, merged.runs, attempts, cases, problems, merged.tail, settled.events)


class _Merged:
    """Events of several logs by name. Copies of a line count once."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.tail: tuple[str, ...] = ()
        self._claims: dict[Name, list[Event]] = {}

    @property
    def runs(self) -> tuple[str, ...]:
        """The ids of all runs."""
        return tuple(sorted({name.run for name in self._claims}))

    def claims(self, run_id: str) -> dict[Name, list[Event]]:
        """Return a run's events."""
        return {name: claiming for name, claiming in self._claims.items() if name.run == run_id}

    def read(self, source: Path) -> None:
        """Add a log's events, and to the problems what is wrong with it."""
        reader = LogReader(source)
        events, damages = 0, 0
        said: list[str] = []
        for found in scan(reader.blocks()):
            if isinstance(found, Event):
                events += 1
                self._add(found)
            else:
                damages += 1
                said += [f"line {found.line}: {found.reason}"] if damages <= _SHOWN else []
        said += more(damages - _SHOWN, "damaged events")
        if reader.form is Form.FOREIGN and not events:
            said = []  # what the file is says it all
        said = [*reader.problems, *said]
        if not events and reader.form not in (Form.EMPTY, Form.FOREIGN):
            said.append(f"there is no event of a run in it: it is {reader.form}, {reader.line_count} lines")
        self.problems += [f"{source}: {printable(sentence)}" for sentence in said]
        self.tail = tuple(reader.tail(_TAIL_LINES)) or self.tail

    def _add(self, event: Event) -> None:
        claiming = self._claims.setdefault(event.name, [])
        if all(known.line != event.line for known in claiming):
            claiming.append(event)


def _chosen(run_id: str, runs: Sequence[str]) -> str:
    met = printable(", ".join(runs))
    if not run_id and len(runs) > 1:
        raise UsageError(f"the logs are of {len(runs)} runs: {met}", "give the logs of one run at a time")
    if run_id and runs and run_id not in runs:
        raise UsageError(f"the logs are not of run {run_id} but of {met}", "give the logs of that run")
    return run_id or (runs[0] if runs else "")


def _attempts(events: Iterable[Event], sealed: Collection[Which]) -> tuple[Attempt, ...]:
    gathered: dict[tuple[int, int], list[Event]] = {}
    for event in events:
        gathered.setdefault((event.name.part, event.name.attempt), []).append(event)
    return tuple(Attempt.of(*which, own, sealed=which in sealed) for which, own in sorted(gathered.items()))


def _missing(attempts: Sequence[Attempt], planned: Planned) -> list[str]:
    known = {(part, case.id) for part, cases in planned.items() for case in cases}
    known |= {(one.part, case.id) for one in attempts for case in one.planned.values()}
    problems = []
    for attempt in attempts:
        problems += attempt.problems()
        unplanned = [case_id for case_id in attempt.results if (attempt.part, case_id) not in known]
        said = [
            f"part {attempt.part}: {case_id} has a result, and its place in the plan is lost"
            for case_id in unplanned
        ]
        problems += said[:_SHOWN] + more(len(said) - _SHOWN, "such results")
    return [printable(problem) for problem in problems]
