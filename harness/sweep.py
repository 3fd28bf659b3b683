"""All cases of an order dealt to all cards. Standard library only."""

from __future__ import annotations

import datetime
import math
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from harness.cards import Card
from harness.carried import Carried
from harness.cores import keep_to
from harness.events import (
    FINAL_STATUSES,
    CaseDone,
    Device,
    End,
    Note,
    Order,
    Plan,
    Planned,
    Profile,
    Samples,
    Started,
)
from harness.hardware import Machine, as_seen
from harness.limits import WORDS, CaseFailureError, Limits
from harness.outlet import Outlet
from harness.process import none_alive
from harness.shapes import FRESH_WORKER, Case, cost_s
from harness.station import Station

GRACE_S = 4.0  # for the cards' threads to cut their cases; shorter than the deadline's margin


class Sweep:
    """One attempt at an order: it announces, deals, and closes with a count of every planned case."""

    def __init__(self, order: Order, carried: Carried, limits: Limits, outlet: Outlet) -> None:
        self._order = order
        self._carried = carried
        self._limits = limits
        self._outlet = outlet
        self._waiting = deque(case for case in order.cases if case.id not in carried.final)
        self._wrong: Machine | None = None  # what came in the place of what was asked for
        self._statuses = dict(carried.final)
        self._devices: set[int] = set()
        self._hopeless: list[tuple[Card, CaseFailureError]] = []  # cards that can carry no case, and why
        self._again = compared_with_themselves(order.cases)
        self._lock = threading.Lock()

    @property
    def passed(self) -> bool:
        """Whether every case has passed."""
        return all(self._statuses.get(case.id) == "passed" for case in self._order.cases)

    def announce(self) -> None:
        """Repeat what is carried over, then say what is planned, before anything can go wrong."""
        self._outlet.replay(self._carried.lines)
        plan = Plan(
            self._carried.ref,
            self._order.terms,
            planned=len(self._order.cases),
            started_at=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            carried=len(self._carried.final),
            deadline_s=self._limits.seconds,
            key_sha256=self._outlet.seal.sha256,
        )
        self._outlet.emit(plan, *(Planned(index, case) for index, case in enumerate(self._order.cases)))
        if self._carried.damaged:
            self._outlet.emit(
                Note(f"{self._carried.damaged} damaged lines of the earlier attempt are left out")
            )

    def refuse_wrong_accelerator(self, machine: Machine) -> bool:
        """Tell what was found; whether it is not what was asked for, so that no case will run."""
        self._outlet.emit(machine.record)
        if not machine.record.finding or self._order.terms.allow_mismatch or self._limits.reason():
            return False
        self._wrong = machine
        for card in machine.came:
            self._introduce(as_seen(card))
        return True

    def carry_out(self, cards: Sequence[Card], scratch: Path) -> str:
        """Run the waiting cases, one thread a card, and return why it ended: `complete` or what else.

        One card takes them in the plan's order. Several take the longest first, so that none works alone
        at the end.
        """
        if len(cards) > 1:
            self._waiting = deque(longest_first(self._waiting, self._order.terms.seeds))
        threads = [
            threading.Thread(target=self._serve, args=(card, scratch / f"card{number}"), daemon=True)
            for number, card in enumerate(cards[: len(self._waiting)])
        ]
        for thread in threads:
            thread.start()
        self._await(threads)
        reason = self._limits.reason()
        if not reason and self._hopeless and len(self._hopeless) == len(threads):
            self._give_up_waiting()
        ended = [case for case in self._order.cases if self._statuses.get(case.id) in FINAL_STATUSES]
        return "complete" if len(ended) == len(self._order.cases) else reason or "driver_error"

    def close(self, reason: str) -> None:
        """Say of every case without an end that it was not run, and why; then end the attempt."""
        words, index = WORDS.get(reason, "the driver failed, its traceback is in the log"), -1
        if self._wrong:
            words, index = f"{words}: {self._wrong.record.finding}", self._wrong.came[0].index
        for case in self._order.cases:
            self._tell(CaseDone(case.id, index, "not_run", reason, f"not started: {words}"))
        counts = dict(Counter(self._statuses.values()))
        key = self._outlet.seal.reveal() if none_alive() else ""
        self._outlet.emit(End(reason, counts, round(self._limits.elapsed(), 3), key), last=True)

    # --- one thread a card --------------------------------------------------------------------------------

    def _serve(self, card: Card, scratch: Path) -> None:
        keep_to(card.cores)
        scratch.mkdir(parents=True, exist_ok=True)
        station = Station(card, self._order.terms, self._limits, scratch, self._outlet.say)
        try:
            self._introduce(station.open(first=next(iter(tuple(self._waiting)), None)))
            for case in self._deal():
                self._outlet.emit(Started(case.id, card.index))
                samples, done = station.carry(case, case.id in self._again)
                self._tell(*samples, done)
                station.tidy(case)
        except CaseFailureError as failure:
            self._introduce(as_seen(card))
            if (
                failure.status != "not_run"
            ):  # else it is the run that ends, and nothing is wrong with the card
                self._hopeless.append((card, failure))
                self._outlet.emit(Note(f"{card.name} takes no case: {failure.error.splitlines()[-1]}"))
        finally:
            station.close()

    def _deal(self) -> Iterator[Case]:
        while not self._limits.reason():
            try:
                case = self._waiting.popleft()
            except IndexError:
                return
            yield case

    def _introduce(self, device: Device) -> None:
        with self._lock:
            if device.index in self._devices:
                return
            self._devices.add(device.index)
        self._outlet.emit(device)

    def _tell(self, *bodies: Samples | Profile | CaseDone) -> None:
        """Write a case's samples and its end in one go, once, and remember the status."""
        done = bodies[-1]
        assert isinstance(done, CaseDone)
        with self._lock:
            if done.case_id in self._statuses:  # a card that was no longer waited for comes late
                return
            self._statuses[done.case_id] = done.status
            self._outlet.emit(*bodies)

    # --- the end ------------------------------------------------------------------------------------------

    def _await(self, threads: list[threading.Thread]) -> None:
        """Wait for the cards' threads; once the run must end, for a short while only."""
        for thread in threads:
            while thread.is_alive() and not self._limits.overdue(GRACE_S):
                thread.join(0.1)

    def _give_up_waiting(self) -> None:
        """No card can carry any case: each gets the reason."""
        card, failure = self._hopeless[0]
        while self._waiting:
            case = self._waiting.popleft()
            self._tell(CaseDone(case.id, card.index, failure.status, failure.kind, failure.error))


def longest_first(cases: Iterable[Case], seeds: int) -> list[Case]:
    """Return the cases by their estimated cost, equal ones as they were."""
    # What a T4 refuses at once is the longest of all where it fits.
    return sorted(cases, key=lambda case: cost_s(case, seeds) or math.inf, reverse=True)


def compared_with_themselves(cases: Sequence[Case]) -> frozenset[str]:
    """Return the ids of cases of three shapes, spread: there the baseline is compared with itself, too."""
    first: dict[str, str] = {}
    for case in cases:
        if case.protocol in FRESH_WORKER and case.shape.key != "s14":
            first.setdefault(case.shape.key, case.id)
    ids = list(first.values())
    return frozenset((*ids[:1], *ids[len(ids) // 2 :][:1], *ids[-1:]))
