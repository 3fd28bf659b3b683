"""Bringing log and files back from the service, with everything that goes wrong on the way."""

from __future__ import annotations

import pytest

from builder.runs import Run
from tests.service.ferrying import ferry, held, passing, program, pushed, released, states
from tests.service.kaggle.knobs import Fault
from tests.service.kaggle.server import KaggleServer
from tests.unit.written_logs import OTHER_RUN, lines_of

WEIGHTS = "open('weights.pt', 'wb').write(bytes(3 << 20))\nopen('notes.txt', 'w').write('kept')"


def names(run: Run) -> set[str]:
    """The names of the files that are here."""
    outputs = run.part(1) / "outputs"
    return {path.relative_to(outputs).as_posix() for path in outputs.rglob("*") if path.is_file()}


def test_all_is_well(hurried: KaggleServer) -> None:
    """Log and files come, the rows are made, and the journal ends with both."""
    run = pushed(hurried, WEIGHTS)
    done = ferry("pull", "--json")
    assert (done.code, done.document["counts"]) == (0, {"passed": 1})
    assert names(run) == {"ferry-events.jsonl", "weights.pt", "notes.txt"}
    assert states(run)[-2:] == ["done", "fetched"] and run.is_finished


def test_link_that_expires_on_the_way(hurried: KaggleServer) -> None:
    """A link that has died is asked for anew, within one pull."""
    hurried.knobs.faults = [Fault("download", status=403)]
    run = pushed(hurried)
    assert ferry("pull").code == 0
    assert names(run) == {"ferry-events.jsonl"}


def test_one_broken_file_costs_no_other(hurried: KaggleServer) -> None:
    """The download that fails is listed, the others are here, and the next pull brings it alone."""
    run = pushed(hurried, WEIGHTS)
    hurried.knobs.faults = [Fault("download", status=500, times=None, skip=1)]
    done = ferry("pull")
    assert done.code == 5
    assert names(run) == {"ferry-events.jsonl"}
    hurried.knobs.faults = []
    before = len(hurried.calls("download"))
    assert ferry("pull").code == 0
    assert names(run) == {"ferry-events.jsonl", "weights.pt", "notes.txt"}
    assert len(hurried.calls("download")) == before + 2


def test_a_kernel_that_is_gone_when_the_rest_is_wanted(hurried: KaggleServer) -> None:
    """What had come before the kernel was deleted still makes its rows, and the missing file is named."""
    run = pushed(hurried, WEIGHTS)
    hurried.knobs.faults = [Fault("download", status=500, times=None, skip=1)]
    assert ferry("pull").code == 5
    hurried.kernels.delete(hurried.sessions[0].kernel)
    done = ferry("pull", "--json")
    assert (done.code, done.document["counts"]) == (5, {"passed": 1})
    assert any("missing: the list of files itself" in said for said in done.document["problems"])
    assert states(run)[-1] == "incomplete"


def test_patterns_and_a_limit(hurried: KaggleServer) -> None:
    """What is not wanted is said to be left out, the results come always, a later pull brings the rest."""
    run = pushed(hurried, WEIGHTS)
    done = ferry("pull", "--include", "*.pt", "--max-mib", "1")
    assert done.code == 0, done.err
    assert "left out: notes.txt (no --include fits it)" in done.err
    assert "left out: weights.pt (it has more than 1,048,576 bytes)" in done.err
    assert names(run) == {"ferry-events.jsonl"} and run.is_finished
    assert ferry("pull", run.id, "--exclude", "*.txt").code == 0
    assert names(run) == {"ferry-events.jsonl", "weights.pt"}


def test_empty_log_and_no_file(hurried: KaggleServer) -> None:
    """A run that has left nothing is never finished and never good: each case's row says unknown."""
    hurried.knobs.log_empty, hurried.knobs.stream = True, False
    run = held(hurried)
    released(hurried, "raise SystemExit(1)")
    done = ferry("pull", "--json")
    assert (done.code, done.document["counts"]) == (5, {"unknown": 1})
    assert any("the log (it is empty" in said for said in done.document["problems"])
    assert states(run)[-2:] == ["failed", "incomplete"] and not run.is_finished


def test_late_log(hurried: KaggleServer) -> None:
    """A log that is late by a moment is waited for."""
    hurried.knobs.log_late_s = 0.08
    run = pushed(hurried)
    assert ferry("pull").code == 0
    assert (run.part(1) / "log.raw").stat().st_size


# --- the log and the results file -------------------------------------------------------------------------


def test_log_and_results_that_disagree(hurried: KaggleServer) -> None:
    """A case that the log says passed and the file says failed is nobody's: unknown, exit 4."""
    run = held(hurried)
    lines = lines_of(passing(run), run.id)
    *said, _, end = passing(run)
    other = lines_of([*said, end], run.id)
    released(hurried, program(lines, other))
    done = ferry("pull", "--json")
    assert (done.code, done.document["counts"]) == (4, {"unknown": 1})
    assert any("two different events claim it" in said for said in done.document["problems"])


@pytest.mark.parametrize("lacking", ["log", "file"])
def test_either_alone_suffices(hurried: KaggleServer, lacking: str) -> None:
    """Half a log with the whole file is good, and so is the whole log with half the file."""
    run = held(hurried)
    lines = lines_of(passing(run), run.id)
    half = lines[: len(lines) // 2]
    released(hurried, program(half, lines) if lacking == "log" else program(lines, half))
    assert ferry("pull", "--json").document["counts"] == {"passed": 1}


def test_results_of_another_run(hurried: KaggleServer) -> None:
    """A results file with another run's id is named, and the run is never shown as good."""
    run = held(hurried)
    released(hurried, program(lines_of(passing(run), run.id), lines_of(passing(run), OTHER_RUN)))
    done = ferry("pull", "--json")
    assert done.code == 4
    assert f"there are events of another run, {OTHER_RUN}" in done.document["problems"]


def test_nothing_but_another_run(hurried: KaggleServer) -> None:
    """Log and file of another run are no result of this one."""
    run = held(hurried)
    lines = lines_of(passing(run), OTHER_RUN)
    released(hurried, program(lines, lines))
    done = ferry("pull", "--json")
    assert (done.code, done.document["counts"]) == (4, {"unknown": 1})
    assert f"there are events of another run, {OTHER_RUN}" in done.document["problems"]


def test_a_plan_that_is_not_whole(hurried: KaggleServer) -> None:
    """A plan that announces more cases than it names is told, and the run is incomplete."""
    run = held(hurried)
    plan, *rest = passing(run)
    lines = lines_of([type(plan)(**{**vars(plan), "planned": 2}), *rest], run.id)
    released(hurried, program(lines, lines))
    done = ferry("pull", "--json")
    assert (done.code, done.document["counts"]) == (4, {"passed": 1})
    assert any("the plan is not whole" in said for said in done.document["problems"])
