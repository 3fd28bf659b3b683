"""Contradictions and forgeries are reported, and give nobody a better result."""

import json
import zlib
from pathlib import Path

import pytest

from harness.events import MARKER, Body, CaseDone, Device, End, Note, Plan, Planned, Samples
from tests.unit.written_logs import (
    CASES,
    GATE,
    RUN,
    bodies,
    figures,
    lines_of,
    log_of,
    opened,
    parsed,
    plain,
    timed,
    writes,
)

FIRST, FOURTH = CASES[0], CASES[3]
NS = "eJwDAAAAAAE="  # no samples, packed


def test_two_events_of_one_name_are_a_conflict(tmp_path: Path) -> None:
    """When two logs say different things under one name, neither is believed, whichever is better."""
    worse = log_of([*opened(), *timed(FIRST, scale=9), *bodies()[13:]])
    for logs in ([log_of(bodies()), worse], [worse, log_of(bodies())]):
        records = parsed(tmp_path, *logs)
        assert records.cases[0].status == "unknown" and records.cases[1].status == "passed"
        assert not records.complete
        assert any("two different events claim it" in problem for problem in records.problems)


def test_two_results_in_one_attempt_are_no_result(tmp_path: Path) -> None:
    """A case that ended twice in one attempt is unknown."""
    some = [*opened(), CaseDone(FIRST.id, 0, "error"), *timed(FIRST)]
    assert "2 results" in parsed(tmp_path, log_of(some)).cases[0].reason


def checked(text: str) -> str:
    """A line with the marker and a right check around any text."""
    return f'{MARKER}{text},"check":"{zlib.crc32(text.encode()):08x}"}}'


NAMED = {"run": RUN, "part": 1, "attempt": 1, "seq": 99}
ENVELOPE: dict[str, object] = {"v": 1, **NAMED, "at": 1.0, "kind": "note", "body": {"text": "x"}}
CHANGES: list[dict[str, object]] = [
    {"v": 3},
    {"kind": []},
    {"kind": "verdict"},
    {"seq": "99"},
    {"seq": True},
    {"at": 10**400},
    {"body": []},
    {"body": {"text": 5}},
    {"run": None},
]


@pytest.mark.parametrize(
    "line",
    [
        lines_of(bodies())[-1].replace('"complete"', '"complete!"'),
        checked("nonsense"),
        checked("[1" + "[" * 50_000),
        *(checked(json.dumps({**ENVELOPE, **change})[:-1]) for change in CHANGES),
    ],
)
def test_a_forged_event_is_reported(line: str, tmp_path: Path) -> None:
    """An event that was altered, or was never one, is reported with its line and never believed."""
    records = parsed(tmp_path, plain([*writes(), ("stdout", line + "\n")]))
    number = plain(writes()).count(b"\n") + 1
    assert f"line {number}: an event" in records.problems[0]
    assert list(figures(records)) == list(figures(parsed(tmp_path, plain(writes()))))


@pytest.mark.parametrize(
    "forged",
    [
        [Samples(FIRST.id, "candidate", 0, 0, "%%%")],
        [Samples(FIRST.id, "candidate", -1, 10**30, NS)],
        [CaseDone(FIRST.id, 0, "splendid")],
        [CaseDone(FIRST.id, 7, "passed", gate=GATE)],
        [CaseDone(FIRST.id, 0, "passed", gate=GATE, samples=-3)],
        [Device(0, "fast"), CaseDone(FIRST.id, 0, "passed", samples=10**9)],
        [Plan(opened()[0].ref, opened()[0].terms, -1, ""), Planned(-5, FOURTH), Note("\x1b[2J")],  # type: ignore[union-attr]
    ],
)
def test_senseless_events_are_no_result(forged: list[Body], tmp_path: Path) -> None:
    """Events that are well formed and make no sense crash nothing and give no figure."""
    if isinstance(forged[0], Samples):
        forged = [*forged, CaseDone(FIRST.id, 0, "passed", gate=GATE, samples=20)]
    records = parsed(tmp_path, log_of([*opened(), *forged, End("complete", {}, 1.0)]))
    assert records.cases[0].status == "unknown" and not records.cases[0].samples and not records.complete


def test_a_far_number_is_a_gap_not_a_loop(tmp_path: Path) -> None:
    """A sequence number that is absurdly high is one gap, found at once."""
    line = checked(json.dumps({**ENVELOPE, "seq": 10**15}, separators=(",", ":"))[:-1])
    records = parsed(tmp_path, plain([*writes(), ("stdout", line + "\n")]))
    assert f"missing in the sequence: {len(bodies()) + 1} to {10**15 - 1}" in records.problems[-1]


@pytest.mark.parametrize("at", ["nan", "inf", float("nan"), float("-inf")])
def test_a_time_that_is_no_number_can_be_read_twice_and_written(at: object, tmp_path: Path) -> None:
    """A replayed event of no time contradicts nothing and can be written again from the records."""
    line = checked(json.dumps({**ENVELOPE, "at": at}, separators=(",", ":"))[:-1])
    records = parsed(tmp_path, plain([*writes(), *[("stdout", line + "\n")] * 2]))
    assert not any("contradict" in problem or "claim" in problem for problem in records.problems)
    again = parsed(tmp_path, records.events_jsonl(1).encode())
    assert list(figures(again)) == list(figures(records))
    assert again.events_jsonl(1) == records.events_jsonl(1)
