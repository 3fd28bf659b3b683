"""Who has which case of a run that is dealt: parts under way, results, what is to be dealt again. Pure."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Mapping

from builder.dealing import Dealer, Held, late

TRIES = 3  # parts that may lose a case
COPIES = 3  # parts that may have a case at once
UNKNOWN_PACE = 3.0  # until parts have shown how good the expectations are
PACES = 3  # so many


class Standing:
    """The dealer's cases and those of parts under way. `slots` is how many parts a place has at once."""

    def __init__(self, dealer: Dealer, slots: Mapping[str, int], cases: Iterable[str]) -> None:
        self.dealer = dealer
        self.done: set[str] = set()
        self.held: dict[int, Held] = {}
        self._slots = slots
        self._busy: Counter[str] = Counter()
        self._holders: dict[str, set[int]] = {case: set() for case in cases}
        self._lost: Counter[str] = Counter()
        self._cut: set[str] = set()
        self._paces: list[float] = []  # of parts that came whole, sorted

    def begin(self, left_out: Iterable[str]) -> None:
        """Let all wait that nobody has, that have no result and are not left out."""
        gone = {*left_out, *self.done}
        self.dealer.offer(case for case, parts in self._holders.items() if case not in gone and not parts)

    def lacking(self, left_out: Iterable[str]) -> set[str]:
        """Return the cases without a result that were not left out."""
        return self._holders.keys() - self.done - {*left_out}

    def hold(self, part: int, place: str, cases: Iterable[str], since_s: float) -> Held:
        """Note a part that is to be pushed, or was."""
        held = Held(part, place, {*cases}, since_s, self.dealer.expected_s(place, cases))
        self.held[part] = held
        self._busy[place] += 1
        for case in held.owes:
            self._holders[case].add(part)
        held.owes -= self.done
        return held

    def finish(self, results: Iterable[str]) -> None:
        """A case that has a result is owed by nobody, and waits no longer."""
        for case in results:
            self.done.add(case)
            self.dealer.withdraw(case)
            for part in self._holders[case]:
                self.held[part].owes.discard(case)

    def release(self, part: int, cases: Iterable[str], spent_s: float) -> Held:
        """Let go of a part: what it owes waits again, unless another has it or too many have lost it."""
        held = self.held.pop(part)
        self._busy[held.place] -= 1
        for case in cases:
            self._holders[case].discard(part)
        self.dealer.use(held.place, spent_s - held.expected_s)
        if spent_s and not held.owes:
            insort(self._paces, spent_s / (held.expected_s or 1.0))
        if not held.is_cut:
            self._lost.update(held.owes)
        again = [case for case in held.owes if self._lost[case] < TRIES and not self._holders[case]]
        self.dealer.offer(sorted(again))
        return held

    def is_free(self, place: str) -> bool:
        """Whether a place may be dealt one more part."""
        return self.dealer.is_open(place) and self._busy[place] < self._slots[place]

    @property
    def pace(self) -> float:
        """What parts take over what was expected of them, the median; never less than 1."""
        middle = self._paces[len(self._paces) // 2] if len(self._paces) >= PACES else UNKNOWN_PACE
        return max(1.0, middle)

    def late(self, now_s: float) -> list[Held]:
        """Return the late parts, where somebody is free to do their cases.

        For one that still waits in its place's queue that is somebody elsewhere.
        """
        free = {place for place in self._slots if self.is_free(place)}
        found = late(self.held.values(), now_s, self.pace) if free else []
        return [held for held in found if held.runs or free - {held.place}]

    def may_cut(self, held: Held) -> bool:
        """Whether a late part may be stopped, so that others do the rest: each case is cut at most once."""
        return held.runs and len(held.owes) > 1 and not held.owes & self._cut

    def cut(self, held: Held) -> None:
        """A part was asked to stop: what it owes then waits again, and does not count as lost."""
        held.is_cut = True
        self._cut |= held.owes

    def share(self, held: Held) -> None:
        """Let the cases of a part wait once more, beside it."""
        held.is_shared = True
        self.dealer.offer(sorted(case for case in held.owes if len(self._holders[case]) < COPIES))
