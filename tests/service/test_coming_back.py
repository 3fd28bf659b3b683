"""Leaving a run of the service and coming back to it: Ctrl-C, further parts, a kill while stopping."""

from __future__ import annotations

import csv
import functools
from collections.abc import Callable

import pytest

from builder import runs
from builder.backends.kaggle import Kaggle
from builder.runs import Run
from harness.events import CaseDone, End
from tests.service.ferrying import ONE_CASE, ferry, held, passing, program, released, states
from tests.service.kaggle.knobs import SLOTS
from tests.service.kaggle.server import KaggleServer
from tests.unit.written_logs import lines_of

TWO_CASES = [word if word != "1" else "1,4" for word in ONE_CASE]
STAYING = "import time\ntime.sleep(99)"


def press_ctrl_c(*_: object) -> None:
    """Interrupt."""
    raise KeyboardInterrupt


def rows(run: Run) -> list[tuple[str, str, str]]:
    """Each row's shape, part and status."""
    with (run.folder / "results.csv").open(newline="") as stream:
        return [(row["shape"], row["part"], row["status"]) for row in csv.DictReader(stream)]


@pytest.mark.parametrize("command", ["pull", "run"])
def test_ctrl_c_detaches(hurried: KaggleServer, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while waiting is exit 130 and says how to come back; nothing is stopped, a pull has it all."""
    hurried.knobs.hold = True
    if command == "pull":
        held(hurried)
    with monkeypatch.context() as patched:
        patched.setattr("builder.waiting.Watch.nap", press_ctrl_c)
        done = ferry(command, *(ONE_CASE if command == "run" else ()))
    assert done.code == 130
    [run] = runs.all_runs()
    assert f"detached from run {run.id}, which goes on" in done.err
    assert f"to come back: ferry pull {run.id}" in done.err
    released(hurried, program(lines_of(passing(run), run.id)))
    assert ferry("pull").code == 0
    assert len(hurried.sessions) == 1


def half_done(hurried: KaggleServer) -> Run:
    """A run of two cases whose session was ended after the first."""
    hurried.knobs.hold = True
    assert ferry("push", *TWO_CASES).code == 0
    [run] = runs.all_runs()
    said = passing(run)
    first = next(place for place, body in enumerate(said) if isinstance(body, CaseDone))
    released(hurried, program(lines_of(said[: first + 1], run.id)))
    done = ferry("pull", "--json")
    assert (done.code, done.document["counts"]) == (4, {"passed": 1, "unknown": 1})
    return run


def test_a_second_part_has_what_is_missing(hurried: KaggleServer) -> None:
    """Resume pushes the missing case alone, under a slug of its own; its row joins the run's."""
    run = half_done(hurried)
    hurried.knobs.hold = True
    done = ferry("resume", run.id)
    assert done.code == 0, done.err
    assert "part 2: 1 of 2 cases have no result yet" in done.err
    assert [kernel.slug for kernel in hurried.kernels.kernels] == [f"ferry-{run.id}-1", f"ferry-{run.id}-2"]
    released(hurried, program(lines_of(passing(run, 2), run.id, part=2)))
    done = ferry("pull", "--json")
    assert (done.code, done.document["counts"]) == (0, {"passed": 2}), done.out
    assert rows(run) == [("t01", "1", "passed"), ("t04", "2", "passed")]
    assert states(run, 2)[-2:] == ["done", "fetched"]


def test_a_second_part_that_fails_costs_nothing(hurried: KaggleServer) -> None:
    """What the first part has measured stays when the second brings nothing, and a third may follow."""
    run = half_done(hurried)
    hurried.knobs.hold = True
    assert ferry("resume", run.id).code == 0
    released(hurried, program(lines_of([*passing(run, 2)[:3], End("driver_error", {}, 1.0)], run.id, part=2)))
    assert ferry("pull").code == 4
    assert rows(run) == [("t01", "1", "passed"), ("t04", "2", "unknown")]
    hurried.knobs.hold = True
    assert ferry("resume", run.id).code == 0
    assert run.parts() == [1, 2, 3]


def test_a_second_part_that_is_refused_hides_nothing(hurried: KaggleServer) -> None:
    """What the first part has measured is still shown when the service would not take the second."""
    run = half_done(hurried)
    hurried.knobs.refusal = SLOTS
    assert ferry("resume", run.id).code == 7
    done = ferry("pull", run.id, "--json")
    assert (done.code, done.document["counts"]) == (4, {"passed": 1, "unknown": 1})
    assert not run.is_finished


@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_while_stopping(hurried: KaggleServer, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that dies around the deletion loses no log: what it had kept makes the rows."""
    run = held(hurried)
    released(hurried, program(lines_of(passing(run), run.id), rest=STAYING))
    while not hurried.sessions[0].log.records:
        pass
    delete = functools.partial(Kaggle.stop, Kaggle())
    with monkeypatch.context() as patched:
        patched.setattr(Kaggle, "stop", dying(delete, moment == "after"))
        assert ferry("stop", "--yes").code == 130
    assert hurried.sessions[0].kernel.deleted == (moment == "after")
    assert (run.part(1) / "log.kept").exists()
    if moment == "before":
        assert ferry("stop", "--yes").code == 0
    done = ferry("pull", "--json")
    assert (done.code, done.document["counts"]) == (0, {"passed": 1})
    assert states(run)[-2:] == ["cancelled", "fetched"]


def dying(delete: Callable[..., object], done: bool) -> Callable[..., None]:
    """A deletion that is interrupted before or after it takes effect."""

    def stop(_: object, submission: object) -> None:
        if done:
            delete(submission)
        raise KeyboardInterrupt

    return stop
