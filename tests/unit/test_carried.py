"""What `--continue` takes over from an events file, and what it runs again."""

from pathlib import Path

import pytest

from harness.carried import read_carried
from harness.events import Device, Order, Plan, RunRef, Samples, decode
from tests.unit.written_logs import CASES, RUN, TERMS, bodies, lines_of

FIRST, SECOND, THIRD, FOURTH = (case.id for case in CASES)
ALL = {FIRST: "passed", SECOND: "passed", THIRD: "failed_gate", FOURTH: "error"}


def final(tmp_path: Path, lines: list[str]) -> dict[str, str]:
    """The cases that need no new run after an attempt that has left these lines."""
    file = tmp_path / "events.jsonl"
    file.write_text("\n".join(lines))
    return read_carried(file, RunRef(RUN), Order(TERMS, CASES)).final


def without(kind: type[Plan | Device | Samples]) -> list[str]:
    """The lines of one attempt without its first event of a kind."""
    lines = lines_of(bodies())
    decoded = [decode(line) for line in lines]
    del lines[next(at for at, event in enumerate(decoded) if event and isinstance(event.body, kind))]
    return lines


def test_whole_attempt_is_taken_over(tmp_path: Path) -> None:
    """Whatever has ended needs no new run, also when its lines are there twice."""
    assert final(tmp_path, lines_of(bodies())) == ALL
    assert final(tmp_path, lines_of(bodies()) * 2) == ALL


@pytest.mark.parametrize(
    ("lost", "again"),
    [(Samples, {FIRST}), (Device, {FIRST, SECOND}), (Plan, set(ALL))],
    ids=("samples", "device", "plan"),
)
def test_case_whose_row_would_lack_something_runs_again(
    tmp_path: Path, lost: type[Plan | Device | Samples], again: set[str]
) -> None:
    """A case is no result without its samples, its device or its plan, so it runs again."""
    kept = {case: status for case, status in ALL.items() if case not in again}
    assert final(tmp_path, without(lost)) == kept
