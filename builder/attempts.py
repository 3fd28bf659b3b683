"""What the events of one attempt of one part say, and what became of each of its cases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from harness.events import (
    STATUSES,
    CaseDone,
    DamagedEventError,
    Device,
    End,
    Event,
    Hardware,
    Note,
    Plan,
    Planned,
    Profile,
    Samples,
    Started,
)
from harness.shapes import Case

Rounds = tuple[tuple[int, ...], ...]


class MissingError(ValueError):
    """A case has a last event, and something that its result needs is not there."""


@dataclass
class Attempt:
    """One attempt. Dicts are by case id, but `devices`, which is by index.

    `times` are when a case began and ended, in seconds since the attempt began.
    `lost` says which numbers of its sequence are missing; empty when none is between its plan and its last.
    `sealed` is whether each of its events was checked with the key that its end reveals.
    """

    part: int
    number: int
    plan: Plan | None = None
    end: End | None = None
    hardware: Hardware | None = None
    lost: str = ""
    sealed: bool = False
    planned: dict[int, Case] = field(default_factory=dict)
    devices: dict[int, Device] = field(default_factory=dict)
    started: dict[str, Started] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    results: dict[str, list[CaseDone]] = field(default_factory=dict)
    times: dict[str, tuple[float, float]] = field(default_factory=dict)
    samples: dict[str, list[Samples]] = field(default_factory=dict)
    profiles: dict[str, list[Profile]] = field(default_factory=dict)

    @classmethod
    def of(cls, part: int, number: int, events: Iterable[Event], *, sealed: bool = False) -> Attempt:
        """Gather an attempt's events, each name once."""
        attempt = cls(part, number, sealed=sealed)
        ordered = sorted(events, key=lambda event: event.name.seq)
        for event in ordered:
            attempt._take(event)
            attempt._note_time(event)
        attempt.lost = _lost([event.name.seq for event in ordered])
        return attempt

    @property
    def is_probe(self) -> bool:
        """Whether it was to look at the machine only: its plan has no case."""
        return self.plan is not None and self.plan.planned == 0 and self.hardware is not None

    @property
    def is_whole(self) -> bool:
        """Whether all its events are here, from its plan to its end."""
        return self.plan is not None and self.end is not None and not (self.lost or self.misplanned)

    @property
    def misplanned(self) -> bool:
        """Whether the plan announces another number of cases than it names."""
        return self.plan is not None and self.plan.planned != len(self.planned)

    @property
    def unsealed(self) -> str:
        """Why the seal that was announced proves nothing; empty for a sealed attempt, and where none was."""
        if self.sealed or self.plan is None or not self.plan.key_sha256:
            return ""
        if self.end is None:
            return "no end"
        return "another key" if self.end.key else "key withheld"

    def problems(self) -> list[str]:
        """Say what is missing, a sentence each."""
        where = f"part {self.part}, attempt {self.number}"
        found = (
            (self.plan is None, f"{where}: its first event, the plan, is missing"),
            (self.lost, f"{where}: missing in the sequence: {self.lost}"),
            (
                self.misplanned and not self.lost,
                f"{where}: the plan is not whole: {len(self.planned)} cases are named in it",
            ),
            (self.end is None, f"{where}: there is no end event: it was cut off, or is still going on"),
        )
        return [sentence for is_so, sentence in found if is_so]

    def result(self, case_id: str) -> tuple[CaseDone, dict[str, Rounds]]:
        """Return a case's last event and its samples by side.

        Raises MissingError when there is no such event, when it contradicts another, or when its samples,
        the plan or, for a case that passed, its device, gate or samples are not there.
        """
        results = self.results.get(case_id, [])
        if not results:
            raise MissingError(self._why_none(case_id))
        done = results[0]
        if len(results) > 1:
            raise MissingError(f"attempt {self.number} has {len(results)} results of it")
        if done.status not in STATUSES:
            raise MissingError(f"its status {done.status!r:.20} is unknown here")
        if self.plan is None:
            raise MissingError("the plan, which says what code was run, is lost")
        if done.status == "passed" and done.device_index not in self.devices:
            raise MissingError(f"the event that says what device {done.device_index} is, is lost")
        if done.status == "passed" and not (done.gate and done.samples):
            raise MissingError("it is said to have passed with no gate or no samples")
        return done, _assembled(self.samples.get(case_id, []), done.samples)

    def places(self, case_id: str) -> dict[str, Rounds]:
        """Return, shaped like a case's samples, their places in their blocks; other rounds have none."""
        return _joined(self.samples.get(case_id, []), lambda part: part.places)

    def took_s(self, case_id: str) -> float | None:
        """Return how long a case took on its card, in seconds; None where its start or end is lost."""
        began, ended = self.times.get(case_id, (math.nan, math.nan))
        return ended - began if ended >= began else None

    def _why_none(self, case_id: str) -> str:
        started = self.started.get(case_id)
        if started is None:
            return "it was not started"
        place = "the CPU" if started.device_index < 0 else f"device {started.device_index}"
        return f"it was started on {place} and its end is not in the log"

    def _note_time(self, event: Event) -> None:
        match event.body:
            case Started(case_id=case_id):
                self.times[case_id] = event.at, math.nan
            case CaseDone(case_id=case_id) if case_id in self.times:
                self.times[case_id] = self.times[case_id][0], event.at

    def _take(self, event: Event) -> None:
        match event.body:
            case Plan() as plan:
                self.plan = plan
            case Planned(index, case):
                self.planned[index] = case
            case Hardware() as hardware:
                self.hardware = hardware
            case Device() as device:
                self.devices[device.index] = device
            case Started() as started:
                self.started[started.case_id] = started
            case Samples() as samples:
                self.samples.setdefault(samples.case_id, []).append(samples)
            case Profile() as profile:
                self.profiles.setdefault(profile.case_id, []).append(profile)
            case CaseDone() as done:
                self.results.setdefault(done.case_id, []).append(done)
            case Note(text):
                self.notes.append(text)
            case End() as end:
                self.end = end


def _lost(numbers: list[int]) -> str:
    gaps = [(left + 1, right - 1) for left, right in pairwise(numbers) if right - left > 1]
    shown = [f"{first}" if first == last else f"{first} to {last}" for first, last in gaps[:10]]
    return ", ".join(shown) + (f" and {len(gaps) - 10} more gaps" if len(gaps) > 10 else "")


def _assembled(parts: list[Samples], expected: int) -> dict[str, Rounds]:
    """Put samples together by side and round. MissingError when they do not add up."""
    reached: dict[tuple[str, int], int] = {}
    for part in _in_order(parts):
        where = f"its {part.side} samples of round {part.round}"
        try:
            values, places = part.values, part.places
        except DamagedEventError as problem:
            raise MissingError(str(problem)) from problem
        if part.start != reached.get((part.side, part.round), 0):
            raise MissingError(f"{where} have a hole or come twice")
        if not values or not all(values):
            raise MissingError(f"{where} are none, or have a time of 0 ns")
        if places and len(places) != len(values):
            raise MissingError(f"{where} are {len(values)}, with {len(places)} places")
        reached[part.side, part.round] = part.start + len(values)
    if (found := sum(reached.values())) != expected:
        raise MissingError(f"{found} of its {expected} samples are in the log")
    return _joined(parts, lambda part: part.values)


def _in_order(parts: list[Samples]) -> list[Samples]:
    return sorted(parts, key=lambda part: (part.side, part.round, part.start))


def _joined(parts: list[Samples], what: Callable[[Samples], tuple[int, ...]]) -> dict[str, Rounds]:
    """Join what the parts of each round hold, by side."""
    rounds: dict[tuple[str, int], tuple[int, ...]] = {}
    for part in _in_order(parts):
        rounds[part.side, part.round] = rounds.get((part.side, part.round), ()) + what(part)
    sides: dict[str, Rounds] = {}
    for (side, _), values in rounds.items():
        sides[side] = (*sides.get(side, ()), values)
    return sides
