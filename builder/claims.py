"""Which of the events that claim a name are believed: the sealed ones, and those that nothing contradicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.events import End, Event, Name, Plan, Seal, revealed

_SHOWN = 20  # of problems of one kind

Claims = Mapping[Name, Sequence[Event]]  # events of one name with different lines
Which = tuple[int, int]  # part and attempt


@dataclass(frozen=True)
class Settled:
    """The events that are believed, in order, what speaks against the others, and whose seal holds.

    `sealed` are the attempts whose plan announced a key that their end has revealed: each of their events
    was checked with it.
    """

    events: tuple[Event, ...]
    problems: tuple[str, ...]
    sealed: frozenset[Which]


def settle(claims: Claims) -> Settled:
    """Settle the claims of one run's events.

    In a sealed attempt an event without the right seal is damage. A name that two different events claim
    after that is nobody's.
    """
    seals = {which: seal for which, own in _by_attempt(claims).items() if (seal := _seal_of(own))}
    events, broken, disputed = [], [], []
    for name, claiming in sorted(claims.items()):
        seal = seals.get((name.part, name.attempt))
        right = [event for event in claiming if seal is None or seal.holds(event.line)]
        broken += [name] * (len(claiming) - len(right))
        disputed += [name] if len(right) > 1 else []
        events += right if len(right) == 1 else []
    problems = (
        *_said(broken, "its seal is broken, it is not the driver's; it is not used", "broken seals"),
        *_said(disputed, "two different events claim it; neither is used", "such contradictions"),
    )
    return Settled(tuple(events), problems, frozenset(seals))


def _by_attempt(claims: Claims) -> dict[Which, list[Event]]:
    gathered: dict[Which, list[Event]] = {}
    for name, claiming in claims.items():
        gathered.setdefault((name.part, name.attempt), []).extend(claiming)
    return gathered


def _seal_of(events: Iterable[Event]) -> Seal | None:
    """Return an attempt's seal: of the one key that both its first and its last event vouch for."""
    events = tuple(events)
    announced = {
        event.body.key_sha256: event
        for event in events
        if isinstance(event.body, Plan) and event.name.seq == 1 and event.body.key_sha256
    }
    found = {
        seal.sha256: seal
        for event in events
        if isinstance(event.body, End) and (seal := revealed(event.body.key))
        if seal.sha256 in announced
        if seal.holds(event.line) and seal.holds(announced[seal.sha256].line)
    }
    return next(iter(found.values())) if len(found) == 1 else None


def _said(names: Sequence[Name], words: str, of_what: str) -> Iterator[str]:
    for name in names[:_SHOWN]:
        yield f"part {name.part}, attempt {name.attempt}, number {name.seq}: {words}"
    yield from more(len(names) - _SHOWN, of_what)


def more(count: int, of_what: str) -> list[str]:
    """Say how many of a kind are not shown, if any."""
    return [f"and {count} more {of_what}"] if count > 0 else []
