"""One pull of several runs: one poller, a table each, and what goes wrong with one costs no other."""

from __future__ import annotations

from builder.runs import Run
from tests.service.ferrying import Hurried, ferry, held, passing, program, released
from tests.service.kaggle.server import KaggleServer
from tests.unit.written_logs import lines_of


def two(kaggle: KaggleServer) -> tuple[Run, Run]:
    """Have a run that is as good as done, and one that is queued."""
    first = held(kaggle)
    released(kaggle, program(lines_of(passing(first), first.id)))
    kaggle.sessions[0].wait()
    return first, held(kaggle)


def test_runs_are_pulled_together(hurried: KaggleServer) -> None:
    """Each has its rows in one document, and the account is asked for once for all of them."""
    first, second = two(hurried)
    released(hurried, program(lines_of(passing(second), second.id)))
    hurried.requests.clear()
    done = ferry("pull", first.id, second.id, "--json")
    assert (done.code, done.document["exit_code"]) == (0, 0)
    told = {one["run_id"]: one["counts"] for one in done.document["runs"]}
    assert told == {first.id: {"passed": 1}, second.id: {"passed": 1}}
    assert len(hurried.calls("IntrospectToken")) == 1
    assert first.is_finished and second.is_finished


def test_patience_is_for_all_together(hurried: KaggleServer) -> None:
    """What is over is shown when the host has waited long enough for the rest: 124."""
    first, second = two(hurried)
    began = Hurried.skipped
    done = ferry("pull", first.id, second.id, "--wait", "5m")
    assert done.code == 124
    assert 200 < Hurried.skipped - began < 400
    assert f"run {second.id} is still queued after 300 s" in done.err
    assert "1 passed on Tesla T4" in done.err
    assert first.is_finished and not second.is_finished


def test_a_run_that_is_gone_costs_no_other(hurried: KaggleServer) -> None:
    """The table of the one is shown, the fate of the other is told: exit 5."""
    first, second = two(hurried)
    hurried.kernels.delete(hurried.sessions[1].kernel)
    done = ferry("pull", second.id, first.id)
    assert done.code == 5
    assert "1 passed on Tesla T4" in done.err and "404" in done.err
    assert first.is_finished and not second.is_finished
