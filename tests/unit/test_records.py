"""Records are what the logs say, no more: nothing is guessed, and what is missing has a name."""

import json
from pathlib import Path

import pytest

from builder.errors import UsageError
from builder.records import read_records
from harness.events import MARKER, CaseDone, End, Started
from tests.unit.written_logs import (
    CARD,
    CASES,
    FORMS,
    OTHER_RUN,
    RUN,
    TRAILER,
    array,
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

FIRST, SECOND, THIRD, FOURTH = CASES
NS = "eJwDAAAAAAE="  # no samples, packed


def holed(*numbers: int) -> bytes:
    """The run's log without the events of these numbers."""
    return plain(writes([line for seq, line in enumerate(lines_of(bodies()), 1) if seq not in numbers]))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_records(form: str, tmp_path: Path) -> None:
    """The form, encoding and state that a log is met in change nothing in its records."""
    whole = parsed(tmp_path, plain(writes()))
    found = parsed(tmp_path, FORMS[form]([*writes(), *TRAILER]))
    assert found.complete and found.run_id == RUN
    assert list(figures(found)) == list(figures(whole))


def test_what_a_run_amounts_to(tmp_path: Path) -> None:
    """Cases come in the plan's order with status, samples by round, device and plan; notes and end too."""
    records = parsed(tmp_path, log_of(bodies()))
    assert [(record.case, record.status) for record in records.cases] == list(
        zip(CASES, ("passed", "passed", "failed_gate", "error"), strict=True)
    )
    first, _, third, fourth = records.cases
    assert first.samples["baseline"] == ((5000, 5001, 5002, 5003),) * 2
    assert first.samples["candidate"] == ((1000, 1001, 1002, 1003, 1004, 1005),) * 2
    assert first.device == CARD and first.plan.started_at.startswith("2026") and first.attempt == 1
    assert third.samples == {} and fourth.done and MARKER in fourth.done.error
    assert records.end_reason == "complete" and records.notes == ("device 0 is 80 °C warm",)
    assert records.devices == {(1, 1, 0): CARD}
    assert records.problems == () and records.complete


def test_log_and_events_file_are_one(tmp_path: Path) -> None:
    """The log, the events file or both give the same records, and neither must be whole by itself."""
    events = "".join(f"{line}\n" for line in lines_of(bodies())).encode()
    log = array(writes())
    whole = list(figures(parsed(tmp_path, log)))
    for sources in (
        [events],
        [log, events],
        [events, log],
        [log[: len(log) // 2], events[len(events) // 3 :]],
    ):
        records = parsed(tmp_path, *sources)
        assert list(figures(records)) == whole and records.complete


def test_parts_have_their_own_plans(tmp_path: Path) -> None:
    """A run of two parts has the cases of both, and is complete when both are."""
    one = [*opened(CASES[:1]), *timed(FIRST), End("complete", {}, 1.0)]
    two = [*opened(CASES[1:2]), *timed(SECOND), End("complete", {}, 1.0)]
    paths = [tmp_path / "1", tmp_path / "2"]
    paths[0].write_bytes(log_of(one))
    paths[1].write_bytes(log_of(two, part=2))
    records = read_records(paths)
    assert [(record.part, record.case) for record in records.cases] == [(1, FIRST), (2, SECOND)]
    assert records.complete
    paths[1].write_bytes(log_of(two[:-1], part=2))
    assert not read_records(paths).complete


# --- runs -------------------------------------------------------------------------------------------------


def test_several_runs_must_be_chosen_from(tmp_path: Path) -> None:
    """Logs of two runs are an error that lists them; one that is chosen has rows, and is never good."""
    logs = (log_of(bodies()), log_of(bodies()[:3], run=OTHER_RUN))
    with pytest.raises(UsageError, match=f"2 runs: {RUN}, {OTHER_RUN}"):
        parsed(tmp_path, *logs)
    records = parsed(tmp_path, *logs, run_id=RUN)
    assert not records.complete and records.runs == (RUN, OTHER_RUN)
    assert any(f"another run, {OTHER_RUN}" in problem for problem in records.problems)
    assert records.cases[0].status == "passed"


def test_another_runs_log_is_refused(tmp_path: Path) -> None:
    """A log that is not of the run that was asked for is an error naming both."""
    (tmp_path / "kernel.log").write_bytes(log_of(bodies()))
    with pytest.raises(UsageError, match=f"not of run {OTHER_RUN} but of {RUN}"):
        read_records([tmp_path / "kernel.log"], OTHER_RUN)


def test_another_runs_log_is_no_result_of_what_was_planned(tmp_path: Path) -> None:
    """A run whose cases are known has none of them from another run's log, which is named."""
    records = parsed(tmp_path, log_of(bodies()), run_id=OTHER_RUN)
    assert {record.status for record in records.cases} == {"unknown"}
    assert f"there are events of another run, {RUN}" in records.problems


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (b"", "it is empty"),
        (
            b"Traceback (most recent call last):\nOSError: no\n",
            "no event of a run in it: it is plain text, 2 lines",
        ),
        (b"\x89PNG\r\n\x1a\n", "it is a picture, not a log"),
    ],
)
def test_no_events_is_said(log: bytes, said: str, tmp_path: Path) -> None:
    """A log with no event at all leaves every planned case unknown, and says what it is instead."""
    records = parsed(tmp_path, log)
    assert said in records.problems[0] and str(tmp_path) in records.problems[0]
    assert [record.status for record in records.cases] == ["unknown"] * 4
    assert "nothing of part 1" in records.cases[0].reason and not records.complete


def test_the_tail_is_the_programs_end(tmp_path: Path) -> None:
    """Records of a run that died keep the end of what it printed."""
    died = [*writes(lines_of(opened())), ("stderr", "Traceback:\n  x\nMemoryError\n"), *TRAILER]
    assert parsed(tmp_path, array(died)).tail[-3:] == ("Traceback:", "  x", "MemoryError")


# --- attempts ---------------------------------------------------------------------------------------------


def test_a_restart_that_carries_on(tmp_path: Path) -> None:
    """What an earlier attempt finished stays, and the later one's end makes the run complete."""
    cut = [*opened(), *timed(FIRST), *timed(SECOND), Started(THIRD.id, 0)]
    rest = [*opened(carried=2), *bodies()[-6:]]
    records = parsed(tmp_path, log_of(cut), log_of(rest, attempt=2))
    assert [record.attempt for record in records.cases] == [1, 1, 2, 2]
    assert records.complete
    assert any("attempt 1: there is no end event" in problem for problem in records.problems)


def test_a_later_attempt_has_the_last_word(tmp_path: Path) -> None:
    """An orphan of an older attempt does not override what a newer one says, in any order of the logs."""
    older = [*opened(), *timed(FIRST)]
    newer = [*opened(), CaseDone(FIRST.id, 0, "oom", "cuda", "out of memory")]
    for logs in ([log_of(older), log_of(newer, attempt=2)], [log_of(newer, attempt=2), log_of(older)]):
        record = parsed(tmp_path, *logs).cases[0]
        assert (record.status, record.attempt) == ("oom", 2)


def test_a_cut_line_does_not_swallow_the_next_attempt(tmp_path: Path) -> None:
    """A kill in the middle of an event leaves no line end, and the next attempt's plan is still found."""
    older = plain(writes(lines_of([*opened(), *timed(FIRST)])))
    newer = "\n".join(lines_of([*opened(), *timed(SECOND), End("deadline", {}, 1.0)], attempt=2)).encode()
    records = parsed(tmp_path, older[:-40] + newer)
    assert [record.status for record in records.cases] == ["unknown", "passed", "unknown", "unknown"]
    assert [attempt.is_whole for attempt in records.attempts] == [False, True]


# --- what is missing --------------------------------------------------------------------------------------


def test_no_end_is_incomplete(tmp_path: Path) -> None:
    """A log without its end event is incomplete although every case has its result."""
    records = parsed(tmp_path, holed(len(bodies())))
    assert not records.complete and "unknown" not in {record.status for record in records.cases}
    assert records.problems == (
        "part 1, attempt 1: there is no end event: it was cut off, or is still going on",
    )


def test_a_started_case_is_unknown_not_failed(tmp_path: Path) -> None:
    """A case that was begun and never ended is unknown, as is one that was never begun."""
    records = parsed(tmp_path, log_of([*opened(), *timed(FIRST), Started(SECOND.id, 0)]))
    assert [record.status for record in records.cases] == ["passed", "unknown", "unknown", "unknown"]
    assert "started on device 0" in records.cases[1].reason and records.cases[1].attempt == 1
    assert "not started" in records.cases[2].reason and records.cases[2].attempt is None


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (8, "16 of its 20 samples"),
        (9, "a hole or come twice"),
        (11, "16 of its 20 samples"),
        (13, "its end is not in the log"),
        (6, "what device 0 is"),
        (1, "the plan"),
    ],
)
def test_a_hole_makes_its_case_unknown(number: int, reason: str, tmp_path: Path) -> None:
    """Losing any event that a result needs makes that result unknown, and the gap is reported."""
    records = parsed(tmp_path, holed(number))
    assert not records.complete
    assert records.cases[0].status == "unknown" and reason in records.cases[0].reason
    sequence = "the plan, is missing" if number == 1 else f"missing in the sequence: {number}"
    assert any(sequence in problem for problem in records.problems)


def test_a_result_without_its_place_in_the_plan_is_reported(tmp_path: Path) -> None:
    """A result whose planned event is lost is reported, and its run is incomplete."""
    (tmp_path / "log").write_bytes(holed(2))
    records = read_records([tmp_path / "log"])
    assert [record.case for record in records.cases] == list(CASES[1:])
    assert any(
        f"{FIRST.id} has a result, and its place in the plan is lost" in said for said in records.problems
    )
    assert not records.complete


def test_not_run_is_incomplete(tmp_path: Path) -> None:
    """A whole attempt that says a case was not run is not complete."""
    some = [*opened(CASES[:1]), CaseDone(FIRST.id, -1, "not_run"), End("deadline", {"not_run": 1}, 1.0)]
    (tmp_path / "log").write_bytes(log_of(some))
    records = read_records([tmp_path / "log"])
    assert records.cases[0].status == "not_run" and records.problems == () and not records.complete


def test_an_answer_of_the_service_is_named_and_not_taken_apart(tmp_path: Path) -> None:
    """A log that is quoted inside another document is one problem, not one for each event in it."""
    answer = json.dumps({"files": [], "log": array(writes()).decode(), "nextPageToken": ""})
    records = parsed(tmp_path, answer.encode())
    about_it = [problem for problem in records.problems if "log" in problem]
    assert "an answer of Kaggle's service, not a log" in about_it[0]
    assert not any("an event is cut" in problem for problem in records.problems)
