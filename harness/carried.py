"""What an earlier attempt at the same order has left: `--continue`. Standard library only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.events import (
    FINAL_STATUSES,
    CaseDone,
    DamagedEventError,
    Device,
    Event,
    Order,
    Plan,
    Planned,
    RunRef,
    Samples,
    Terms,
    decode,
)


class CannotContinueError(ValueError):
    """The file is not an earlier attempt at this order; the text says why."""


@dataclass(frozen=True)
class Carried:
    """Earlier attempts of one run and part: their lines, and the last status of each case they ended.

    `attempt` is the next attempt's number; `damaged` counts lines that were not whole.
    """

    ref: RunRef
    attempt: int = 1
    lines: tuple[str, ...] = ()
    statuses: dict[str, str] = field(default_factory=dict)
    damaged: int = 0

    @property
    def final(self) -> dict[str, str]:
        """The statuses of the cases that need no new run."""
        return {case: status for case, status in self.statuses.items() if status in FINAL_STATUSES}


def read_carried(path: Path, ref: RunRef, order: Order) -> Carried:
    """Read an events file. With an empty `ref` the run is the file's own, which was the last to write there.

    Raises CannotContinueError when the file cannot be read, is another run's or another order's.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as problem:
        raise CannotContinueError(f"cannot read {path}: {problem.strerror}") from problem
    found, damaged = _decoded(text)
    if not found:
        return Carried(ref, damaged=damaged)
    last = found[-1][1].name
    run, part = (ref.run_id, ref.part) if ref.run_id else (last.run, last.part)
    mine = [(line, event) for line, event in found if (event.name.run, event.name.part) == (run, part)]
    if not mine:
        raise CannotContinueError(
            f"{path} holds run {last.run}, part {last.part}; this is run {run}, part {part}"
        )
    events = [event for _, event in mine]
    _check_order(path, events, order)
    refs = [event.body.ref for event in events if isinstance(event.body, Plan)]
    return Carried(
        ref=ref if ref.run_id else replace(refs[-1] if refs else ref, run_id=run, part=part),
        attempt=max(event.name.attempt for event in events) + 1,
        lines=tuple(line for line, _ in mine),
        statuses=_statuses(events),
        damaged=damaged,
    )


def _decoded(text: str) -> tuple[list[tuple[str, Event]], int]:
    found, damaged = [], 0
    for line in text.split("\n"):
        try:
            event = decode(line)
        except DamagedEventError:
            damaged += 1
        else:
            if event is not None:
                found.append((line, event))
    return found, damaged


def _statuses(events: Sequence[Event]) -> dict[str, str]:
    """The last status of each case that has ended; `unknown` where a line is lost that its row needs.

    That is its attempt's plan and, for a case that passed, its device and all of its samples.
    """
    bodies = {event.name: event.body for event in events}  # a replayed line counts once
    plans = {name.attempt for name, body in bodies.items() if isinstance(body, Plan)}
    devices = {(name.attempt, body.index) for name, body in bodies.items() if isinstance(body, Device)}
    samples: Counter[tuple[int, str]] = Counter()
    for name, body in bodies.items():
        if isinstance(body, Samples):
            samples[name.attempt, body.case_id] += _count(body)

    def is_whole(attempt: int, done: CaseDone) -> bool:
        measured = (attempt, done.device_index) in devices and samples[attempt, done.case_id] == done.samples
        return attempt in plans and (done.status != "passed" or measured)

    ends = [(name.attempt, body) for name, body in bodies.items() if isinstance(body, CaseDone)]
    return {done.case_id: done.status if is_whole(attempt, done) else "unknown" for attempt, done in ends}


def _count(samples: Samples) -> int:
    try:
        return len(samples.values)
    except DamagedEventError:
        return 0


def _check_order(path: Path, events: list[Event], order: Order) -> None:
    cases = {case.id: case for case in order.cases}
    for body in (event.body for event in events):
        if isinstance(body, Plan) and _substance(body.terms) != _substance(order.terms):
            raise CannotContinueError(f"{path} was written with other code or terms than this kernel's")
        if isinstance(body, Plan) and body.planned != len(cases):
            raise CannotContinueError(
                f"{path} belongs to an order of {body.planned} cases, this one has {len(cases)}"
            )
        if isinstance(body, Planned) and cases.get(body.case.id) != body.case:
            raise CannotContinueError(
                f"{path} belongs to another order: case {body.case.id} differs from ours"
            )


def _substance(terms: Terms) -> Terms:
    """The terms without what may differ from place to place: accelerator, cards, time."""
    return Terms(
        terms.bundle_sha256,
        terms.harness_sha256,
        terms.model_sha256,
        model=terms.model,
        own_harness=terms.own_harness,
        seeds=terms.seeds,
    )
