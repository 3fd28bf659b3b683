"""One record a planned case: what its latest attempt says, and which of several parts has the last word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from builder.attempts import Attempt, MissingError, Rounds
from harness.events import FINAL_STATUSES, CaseDone, Device, Plan, Profile, RunRef, Terms
from harness.shapes import Case

Planned = Mapping[int, Sequence[Case]]  # cases by part

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
    took_s: float | None = field(default=None, repr=False)  # it is no figure, and may be lost alone
    origin: str = ""

    @property
    def status(self) -> str:
        """The case's status; `unknown` where there is no result."""
        return self.done.status if self.done else "unknown"


def case_records(
    run_id: str, attempts: Sequence[Attempt], planned: Planned, left_out: Mapping[str, str]
) -> Iterator[CaseRecord]:
    """Yield one record a case, in the run's order; of a case's records in several parts, one by a rule.

    A result goes before none, a sealed one before any other, and of equal ones that of the earlier part: what
    a straggler brings in the end is a case's row if it had the case first, whoever has done it meanwhile.
    Without a result it is the latest part's word.
    """
    found: dict[str, CaseRecord] = {}
    for record in _of_parts(run_id, attempts, planned, left_out):
        known = found.setdefault(record.case.id, record)
        weight, most = _weight(record), _weight(known)
        if weight > most or (weight == most and weight < _RESULT):
            found[record.case.id] = record
    yield from found.values()


_RESULT = 2


def _weight(record: CaseRecord) -> int:
    """How much a record has to say: nothing, that its case was not run, a result, a sealed one."""
    if record.status in FINAL_STATUSES:
        return _RESULT if record.unsealed else _RESULT + 1
    return int(record.done is not None) if record.part else -1


def _of_parts(
    run_id: str, attempts: Sequence[Attempt], planned: Planned, left_out: Mapping[str, str]
) -> Iterator[CaseRecord]:
    for case in planned.get(0, ()):
        yield _undealt(CaseRecord(case, 0, Plan(RunRef(run_id, 0), _NO_TERMS, 0, "")), left_out)
    for part in sorted({*planned, *(attempt.part for attempt in attempts)} - {0}):
        own = [attempt for attempt in attempts if attempt.part == part]
        cases = {case.id: case for case in planned.get(part, ())}
        for attempt in own:
            cases |= {case.id: case for _, case in sorted(attempt.planned.items())}
        blank = Plan(RunRef(run_id, part), _NO_TERMS, len(cases), "")
        for case in cases.values():
            yield _case(CaseRecord(case, part, blank), own)


def _undealt(blank: CaseRecord, left_out: Mapping[str, str]) -> CaseRecord:
    """Fill the record of a case that no part has."""
    if why := left_out.get(blank.case.id):
        return replace(blank, done=CaseDone(blank.case.id, -1, "not_run", "left_out", f"not sent: {why}"))
    return replace(blank, reason="no part of the run has it")


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
