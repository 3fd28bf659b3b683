"""Deal a run's cases over places: pure, without clock, disk or network; all times are expected seconds.

Each time a place has room for one more part, it is dealt one: the longest cases first, so many that the part
takes a share of what still waits (guided self-scheduling: Polychronopoulos and Kuck, 1987). Parts so become
shorter towards the end, and no place works alone there.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

SHARE = 2.0  # a part takes this fraction of what waits for each card
WORTH = 6.0  # a part is worth so many times its own start
SLACK = 1.3  # a part is late after so many times what others took for what was expected of them,
LATE_S = 30.0  # and so long on top;
QUEUED_S = 600.0  # one that has not begun, after so long
FILL = 0.7  # of the longest part that a place allows: what is expected may be wrong

Costs = Mapping[str, Mapping[str, float]]  # by place, by case, in seconds


@dataclass(frozen=True)
class Place:
    """Somewhere that takes parts. Times are in seconds; `part_s` 0 is no limit.

    `slots`: parts at once; `cards`: cases at once in a part; `start_s`: a part's own start; `part_s`: the
    longest part; `left_s`: the device time that may still be used there.
    """

    name: str
    slots: int = 1
    cards: int = 1
    start_s: float = 0.0
    part_s: float = 0.0
    left_s: float = math.inf

    @property
    def longest_s(self) -> float:
        """So much work a part may be given."""
        limit_s = FILL * self.part_s - self.start_s if self.part_s else math.inf
        return min(limit_s, self.left_s - self.start_s)


def part_s(place: Place, costs: Iterable[float]) -> float:
    """Return what a part takes: its start, and its cases over the cards, the longest by itself."""
    known = list(costs) or [0.0]
    return place.start_s + max(*known, sum(known) / place.cards)


@dataclass
class _Room:
    """A place with what has been dealt to it."""

    place: Place
    is_open: bool = True
    used_s: float = 0.0

    @property
    def left_s(self) -> float:
        return self.place.left_s - self.used_s


class Dealer:
    """Holds the cases that wait, and deals them. `budget_s` is the device time that all parts may use."""

    def __init__(self, places: Sequence[Place], costs: Costs, budget_s: float = math.inf) -> None:
        self._rooms = {place.name: _Room(place) for place in places}
        self._costs = costs
        self._heap: list[tuple[float, int, str]] = []
        self._waiting: dict[str, float] = {}
        self._waiting_s = 0.0
        self._order = 0
        self.left_s = budget_s

    @property
    def waiting(self) -> list[str]:
        """The cases that nobody has, as they came."""
        return list(self._waiting)

    @property
    def has_waiting(self) -> bool:
        """Whether any case waits."""
        return bool(self._waiting)

    def offer(self, cases: Iterable[str]) -> None:
        """Let cases wait, for the first time or again."""
        for case in cases:
            if case in self._waiting:
                continue
            cost = self._mean(case)
            self._order += 1
            self._waiting[case] = cost
            self._waiting_s += cost
            heapq.heappush(self._heap, (-cost, self._order, case))

    def withdraw(self, case: str) -> None:
        """Let a case wait no longer: it has a result."""
        self._waiting_s -= self._waiting.pop(case, 0.0)

    def close(self, place: str) -> None:
        """Deal nothing more to a place."""
        self._rooms[place].is_open = False

    def is_open(self, place: str) -> bool:
        """Whether a place is dealt parts."""
        return self._rooms[place].is_open

    def use(self, place: str, seconds: float) -> None:
        """Count device time: a part's expected one when it is dealt, what it differed by at its end."""
        self._rooms[place].used_s += seconds
        self.left_s -= seconds

    def take(self, place: str) -> tuple[str, ...]:
        """Return the next part for a place, whose expected time is counted; empty when it gets none."""
        room = self._rooms[place]
        if not (room.is_open and self._waiting):
            return ()
        chosen, passed = self._fill(room)
        for entry in passed:
            heapq.heappush(self._heap, entry)
        for case in chosen:
            self.withdraw(case)
        if chosen:
            self.use(place, self.expected_s(place, chosen))
        return tuple(chosen)

    def expected_s(self, place: str, cases: Iterable[str]) -> float:
        """Return what a part of these cases takes there."""
        costs = self._costs[place]
        return part_s(self._rooms[place].place, (costs[case] for case in cases))

    def _fill(self, room: _Room) -> tuple[list[str], list[tuple[float, int, str]]]:
        """Choose from the longest on; return the chosen and what was looked at and left."""
        place, costs = room.place, self._costs[room.place.name]
        target_s = self._target_s(place) * place.cards
        most_s = min(place.longest_s, room.left_s - place.start_s, self.left_s - place.start_s)
        longest_s = total_s = 0.0
        chosen: list[str] = []
        passed: list[tuple[float, int, str]] = []
        while self._heap:
            entry = heapq.heappop(self._heap)
            case = entry[2]
            if case not in self._waiting:
                continue
            cost = costs[case]
            if chosen and total_s + cost > target_s:
                passed.append(entry)
                break
            if max(longest_s, cost, (total_s + cost) / place.cards) > most_s or self._waits(case, place):
                passed.append(entry)
                continue
            chosen.append(case)
            longest_s, total_s = max(longest_s, cost), total_s + cost
        return chosen, passed

    def _target_s(self, place: Place) -> float:
        """How long a card of a part should be busy; who works alone takes all at once."""
        if sum(room.place.slots for room in self._rooms.values() if room.is_open) == 1:
            return math.inf
        return max(self._waiting_s / (SHARE * self._cards()), WORTH * place.start_s)

    def _cards(self) -> int:
        return sum(room.place.slots * room.place.cards for room in self._rooms.values() if room.is_open) or 1

    def _waits(self, case: str, place: Place) -> bool:
        """Whether a case is done earlier where it has to wait for its turn: it is too slow here."""
        others = [room for room in self._rooms.values() if room.is_open and room.place is not place]
        fastest_s = min(
            (
                room.place.start_s + self._costs[room.place.name][case]
                for room in others
                if self._costs[room.place.name][case] <= room.left_s
            ),
            default=math.inf,
        )
        cards = sum(room.place.slots * room.place.cards for room in others) or 1
        elsewhere_s = self._waiting_s / cards + fastest_s
        return place.start_s + self._costs[place.name][case] > elsewhere_s

    def _mean(self, case: str) -> float:
        """The longer a case takes where it is done fastest, the earlier it is dealt."""
        return min(costs[case] for costs in self._costs.values())


# --- looking ahead ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dealt:
    """A part as it is foreseen: begun and over so many seconds from the first push."""

    place: str
    cases: tuple[str, ...]
    begins_s: float
    ends_s: float


@dataclass
class Foreseen:
    """What dealing will come to if all is as expected: `left_out` are the cases that fit nowhere."""

    parts: list[Dealt] = field(default_factory=list)
    left_out: tuple[str, ...] = ()

    @property
    def ends_s(self) -> float:
        """When the last part is over."""
        return max((part.ends_s for part in self.parts), default=0.0)

    def used_s(self, place: str = "") -> float:
        """The device time of a place's parts, or of all."""
        return sum(part.ends_s - part.begins_s for part in self.parts if place in ("", part.place))


def foresee(
    places: Sequence[Place], costs: Costs, cases: Sequence[str], budget_s: float = math.inf
) -> Foreseen:
    """Deal without anybody who works: return the parts that will be, and the cases that do not fit.

    Within a budget cases are kept in their order, as many as its device time allows.
    """
    kept = _affordable(places, costs, cases, budget_s)
    while True:
        found = _played(places, costs, kept)
        if found.used_s() <= budget_s or not kept:
            break
        kept = kept[: min(len(kept) - 1, math.ceil(len(kept) * budget_s / found.used_s()))]
    dealt = {case for part in found.parts for case in part.cases}
    found.left_out = tuple(case for case in cases if case not in dealt)
    return found


def _affordable(
    places: Sequence[Place], costs: Costs, cases: Sequence[str], budget_s: float
) -> Sequence[str]:
    if budget_s == math.inf:
        return cases
    left_s = budget_s - min((place.start_s for place in places), default=0.0)
    kept = []
    for case in cases:
        cost = min(costs[place.name][case] / place.cards for place in places)
        if cost <= left_s:
            kept.append(case)
            left_s -= cost
    return kept


def _played(places: Sequence[Place], costs: Costs, cases: Sequence[str]) -> Foreseen:
    dealer, found = Dealer(places, costs), Foreseen()
    dealer.offer(cases)
    free = [(0.0, number, place.name) for place in places for number in range(place.slots)]
    heapq.heapify(free)
    while free:
        now_s, number, name = heapq.heappop(free)
        chosen = dealer.take(name)
        if chosen:
            ends_s = now_s + dealer.expected_s(name, chosen)
            found.parts.append(Dealt(name, chosen, now_s, ends_s))
            heapq.heappush(free, (ends_s, number, name))
    return found


# --- stragglers -------------------------------------------------------------------------------------------


@dataclass
class Held:
    """A part that is under way: `owes` are the cases without a result.

    `since_s` is when it was accepted or, once it runs, when that was first seen. `is_shared`: its cases wait
    once more; `is_cut`: it was asked to stop for being late.
    """

    part: int
    place: str
    owes: set[str]
    since_s: float
    expected_s: float
    runs: bool = False
    is_shared: bool = False
    is_cut: bool = False

    def late_s(self, now_s: float, pace: float = 1.0) -> float:
        """How long it has been late, in seconds; negative before that."""
        allowed_s = SLACK * pace * self.expected_s + LATE_S if self.runs else QUEUED_S
        return now_s - self.since_s - allowed_s


def late(parts: Iterable[Held], now_s: float, pace: float = 1.0) -> list[Held]:
    """Return the parts whose cases somebody else should do, the latest first.

    `pace` is what other parts took over what was expected of them.
    """
    open_ = [held for held in parts if held.owes and not (held.is_shared or held.is_cut)]
    found = [held for held in open_ if held.late_s(now_s, pace) > 0]
    return sorted(found, key=lambda held: held.late_s(now_s, pace), reverse=True)
