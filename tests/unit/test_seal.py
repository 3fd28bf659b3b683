"""Events are sealed by a key that is out only when nobody else of the run lives any more."""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from builder.records import Records
from builder.results import rows
from harness.events import Body, CaseDone, End, Event, Name, Plan, Seal, decode, encode
from tests.unit.written_logs import CASES, RUN, array, bodies, figures, parsed, writes

FIRST = CASES[0].id
KEY = bytes(range(32))


def sealed(some: Iterable[Body], seal: Seal, attempt: int = 1) -> list[str]:
    """Event lines as a driver writes them: the plan announces the seal's key, the end reveals it."""
    told = [with_key(body, seal) for body in some]
    return [
        encode(Event(Name(RUN, 1, attempt, seq), seq / 4, body), seal) for seq, body in enumerate(told, 1)
    ]


def with_key(body: Body, seal: Seal) -> Body:
    """The body with what it says of the seal's key, if it says anything."""
    match body:
        case Plan():
            return replace(body, key_sha256=seal.sha256)
        case End():
            return replace(body, key=seal.reveal())
    return body


LINES = sealed(bodies(), Seal(KEY))


def read(folder: Path, lines: list[str]) -> Records:
    """The records of a log of these lines."""
    return parsed(folder, array(writes(lines)))


def unsealed(records: Records) -> list[str | None]:
    """What each row says of its seal."""
    return [row.flags.get("unsealed") for row in rows(records)]


def forged(seq: int, seal: Seal) -> str:
    """A better end of the first case, by somebody with another key."""
    return encode(Event(Name(RUN, 1, 1, seq), 1.0, CaseDone(FIRST, 0, "passed")), seal)


def number_of_end(lines: list[str]) -> int:
    """The number of the event that ends the first case."""
    found = [event for event in map(decode, lines) if event and isinstance(event.body, CaseDone)]
    return found[0].name.seq


def test_a_sealed_run_is_whole_and_has_no_flag(tmp_path: Path) -> None:
    """With a right seal on every event nothing is said about seals."""
    records = read(tmp_path, LINES)
    assert records.complete and not records.problems
    assert unsealed(records) == [None] * len(CASES)


def test_the_key_is_in_the_last_line_alone() -> None:
    """The plan has the key's hash; the key itself stands in the end event and nowhere before."""
    assert hashlib.sha256(KEY).hexdigest() in LINES[0]
    assert [KEY.hex() in line for line in LINES] == [False] * (len(LINES) - 1) + [True]


def test_a_seal_costs_few_bytes() -> None:
    """A sealed event is 33 bytes longer."""
    plain = encode(Event(Name(RUN, 1, 1, 1), 0.0, bodies()[0]))
    assert len(encode(Event(Name(RUN, 1, 1, 1), 0.0, bodies()[0]), Seal(KEY))) == len(plain) + 33


@pytest.mark.parametrize("at", [0, 5, -1])
def test_an_event_of_another_key_changes_nothing(at: int, tmp_path: Path) -> None:
    """Whoever claims an event's name without the key is reported, wherever the line stands."""
    lines = list(LINES)
    lines.insert(at, forged(number_of_end(LINES), Seal()))
    records = read(tmp_path, lines)
    assert list(figures(records)) == list(figures(read(tmp_path, LINES)))
    assert any("its seal is broken" in problem for problem in records.problems)


def test_an_event_without_a_seal_is_none_in_a_sealed_run(tmp_path: Path) -> None:
    """An event of the older version, whose check is right, is damage among sealed ones."""
    line = encode(Event(Name(RUN, 1, 1, len(LINES) + 1), 1.0, CaseDone(FIRST, 0, "error")))
    records = read(tmp_path, [*LINES, line])
    assert list(figures(records)) == list(figures(read(tmp_path, LINES)))
    assert any("its seal is broken" in problem for problem in records.problems)


def test_a_run_that_broke_off_is_unsealed(tmp_path: Path) -> None:
    """Without an end there is no key: rows that have a result say so."""
    records = read(tmp_path, LINES[:-1])
    assert not records.complete
    assert unsealed(records) == ["no end"] * len(CASES)


def test_a_carried_attempt_without_end_stays_unsealed(tmp_path: Path) -> None:
    """A later attempt's key says nothing about the events of an earlier one."""
    broken = LINES[: number_of_end(LINES)]
    ending = [*bodies()[:6], *bodies()[13:]]
    records = read(tmp_path, [*broken, *sealed(ending, Seal(), attempt=2)])
    assert records.complete, records.problems
    assert unsealed(records) == ["no end", None, None, None]


@pytest.mark.parametrize(
    ("key", "said"), [("", "key withheld"), ("00" * 32, "another key"), ("?", "another key")]
)
def test_a_key_that_is_not_the_announced_one_seals_nothing(key: str, said: str, tmp_path: Path) -> None:
    """A missing, another, or a senseless key leaves the run unsealed, and its rows say why."""
    end = bodies()[-1]
    assert isinstance(end, End)
    line = encode(Event(Name(RUN, 1, 1, len(LINES)), 9.0, replace(end, key=key)), Seal(KEY))
    assert unsealed(read(tmp_path, [*LINES[:-1], line])) == [said] * len(CASES)


def test_a_second_plan_with_a_key_of_its_own_wins_nothing(tmp_path: Path) -> None:
    """A whole forged attempt under the same name, with a key that it reveals, makes nothing sealed."""
    better = sealed([*bodies()[:6], CaseDone(FIRST, 0, "error"), bodies()[-1]], Seal())
    records = read(tmp_path, [*better, *LINES])
    assert not any(row.status == "passed" and "unsealed" not in row.flags for row in rows(records))
    assert not records.complete
