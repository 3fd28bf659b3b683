"""Lines to records: the events of one run out of its logs, checked, merged, and what they amount to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from builder.attempts import Attempt, MissingError, Rounds
from builder.claims import Which, more, settle
from builder.errors import UsageError
from builder.eventscan import scan
from builder.log import LogReader
from builder.logforms import Form
from builder.terminal import printable
from harness.events import (
    FINAL_STATUSES,
    CaseDone,
    Device,
    Event,
    Hardware,
    Name,
    Plan,
    Profile,
    RunRef,
    Terms,
)
from harness.shapes import Case

_TAIL_LINES = 40
_SHOWN = 20  # of problems of one kind in one log
_NO_TERMS = Terms("", "", "")


@dataclass(frozen=True)
class CaseRecord:
    """One planned case and what became of it.

    `done` is None where nothing is certain, and `reason` says why. `attempt` is the one that has the last
    word, None when the log has none at all; `unsealed` says why its seal proves nothing, if so. `plan` has
    empty fields when its event is lost. `samples` holds nanoseconds by side (`baseline`, `candidate`, …)
    and round, `places` where in a block they were taken; `profiles` is what each side was busy with, where
    that was asked for. `took_s` is from its start on a card to its end, None where either is not known.
    `origin` is the run that it was taken from, if not its own.
    """

    case: Case
    part: int
    plan: Plan
    attempt: int | None = None
    done: CaseDone | None = None
    reason: str = ""
    device: Device | None = None
    samples: dict[str, Rounds] = field(default_factory=dict)
    places: dict[str, Rounds] = field(default_factory=dict)
    unsealed: str = ""
    profiles: tuple[Profile, ...] = ()
    took_s: float | None = None
    origin: str = ""

    @property
    def status(self) -> str:
        """The case's status; `unknown` where there is no result."""
        return self.done.status if self.done else "unknown"


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
        """The latest attempt of the latest part: it was to bring whatever was missing before it."""
        return self.attempts[-1] if self.attempts else None

    @property
    def complete(self) -> bool:
        """Whether nothing is missing: the latest attempt is whole and each case has a result.

        Logs that hold other runs' events too are not what they should be, and nothing in them is.
        """
        results = all(case.status not in ("unknown", "not_run") for case in self.cases)
        latest = self.latest
        asked = bool(self.cases) or (latest is not None and latest.is_probe)
        return asked and results and latest is not None and latest.is_whole and not self.foreign

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
    sources: Sequence[Path], run_id: str = "", planned: Mapping[int, Sequence[Case]] | None = None
) -> Records:
    """Read one or several logs and events files of a run, in any form and order, and merge them.

    `planned` are cases by part that are known to belong to the run, so that they have a record even when the
    log has lost its plan or is of another run. UsageError when a file cannot be read, when there are several
    runs and `run_id` does not choose one, or when there is not the one it names and nothing is `planned`.
    """
    merged = _Merged()
    for source in sources:
        merged.read(source)
    if not (run_id and planned):
        run_id = _chosen(run_id, merged.runs)
    settled = settle(merged.claims(run_id))
    attempts = _attempts(settled.events, settled.sealed)
    cases = tuple(_cases(run_id, attempts, planned or {}))
    strangers = [f"there are events of another run, {run}" for run in merged.runs if run != run_id]
    problems = (*merged.problems, *settled.problems, *strangers, *_missing(attempts, cases))
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


def _cases(
    run_id: str, attempts: Sequence[Attempt], planned: Mapping[int, Sequence[Case]]
) -> Iterator[CaseRecord]:
    """Yield one record a case; of a case's records in several parts, the latest that has a result."""
    found: dict[str, CaseRecord] = {}
    for record in _of_parts(run_id, attempts, planned):
        known = found.setdefault(record.case.id, record)
        if _weight(record) >= _weight(known):
            found[record.case.id] = record
    yield from found.values()


def _weight(record: CaseRecord) -> int:
    """How much a record has to say: nothing, that its case was not run, or a result."""
    return 2 if record.status in FINAL_STATUSES else int(record.done is not None)


def _of_parts(
    run_id: str, attempts: Sequence[Attempt], planned: Mapping[int, Sequence[Case]]
) -> Iterator[CaseRecord]:
    for part in sorted({*planned, *(attempt.part for attempt in attempts)}):
        own = [attempt for attempt in attempts if attempt.part == part]
        cases = {case.id: case for case in planned.get(part, ())}
        for attempt in own:
            cases |= {case.id: case for _, case in sorted(attempt.planned.items())}
        blank = Plan(RunRef(run_id, part), _NO_TERMS, len(cases), "")
        for case in cases.values():
            yield _case(CaseRecord(case, part, blank), own)


def _case(blank: CaseRecord, attempts: Sequence[Attempt]) -> CaseRecord:
    """Fill a record from the latest attempt that has a result of the case, else from what was begun."""
    if not attempts:
        return replace(blank, reason=f"nothing of part {blank.part} is in the logs")
    case_id = blank.case.id
    newest_first = attempts[::-1]
    with_result = [attempt for attempt in newest_first if case_id in attempt.results]
    with_start = [attempt for attempt in newest_first if case_id in attempt.started]
    attempt = (*with_result, *with_start, *newest_first)[0]
    record = replace(blank, plan=attempt.plan or blank.plan, unsealed=attempt.unsealed)
    if with_result or with_start:
        record = replace(record, attempt=attempt.number)
    try:
        done, samples = attempt.result(case_id)
    except MissingError as missing:
        return replace(record, reason=str(missing))
    return replace(
        record,
        done=done,
        samples=samples,
        places=attempt.places(case_id),
        device=attempt.devices.get(done.device_index),
        profiles=tuple(attempt.profiles.get(case_id, ())),
        took_s=attempt.took_s(case_id),
    )


def _missing(attempts: Iterable[Attempt], cases: Iterable[CaseRecord]) -> list[str]:
    known = {(record.part, record.case.id) for record in cases}
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
