"""Who has which case of a run that is dealt: parts under way, results, what is to be dealt again. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from builder.dealing import Dealer, Held, overdue

TRIES = 3  # parts that may lose a case


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

    def begin(self, left_out: Iterable[str]) -> None:
        """Let all wait that nobody has, that have no result and are not left out."""
        gone = {*left_out, *self.done}
        self.dealer.offer(case for case, parts in self._holders.items() if case not in gone and not parts)

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
        self._lost.update(held.owes)
        again = [case for case in held.owes if self._lost[case] < TRIES and not self._holders[case]]
        self.dealer.offer(sorted(again))
        return held

    def is_free(self, place: str) -> bool:
        """Whether a place may be dealt one more part."""
        return self.dealer.is_open(place) and self._busy[place] < self._slots[place]

    def share_late(self, now_s: float) -> list[Held]:
        """Where somebody is free and nothing waits, let the cases of late parts wait once more."""
        if self.dealer.has_waiting or not any(map(self.is_free, self._slots)):
            return []
        late = overdue(self.held.values(), now_s)
        for held in late:
            held.is_shared = True
            self.dealer.offer(sorted(case for case in held.owes if len(self._holders[case]) == 1))
        return late
