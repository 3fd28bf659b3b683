"""What is said before a push, how a push without an answer is taken, and how a free session is waited for."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from builder import runs
from tests.service.ferrying import ONE_CASE, ferry, held, only_run, passing, program, released, states
from tests.service.kaggle.knobs import SLOTS, Fault, Trouble
from tests.service.kaggle.server import KaggleServer
from tests.unit.written_logs import lines_of

T4 = ("--accelerator", "NvidiaTeslaT4", "--suite", "official", "--no-rehearsal")
GPU = ("--accelerator", "NvidiaTeslaT4")  # on top of `ONE_CASE`: sessions without a GPU are in nobody's way


def test_one_line_before_the_call(hurried: KaggleServer) -> None:
    """Account, cards, suite, cases, minutes, quota, end and the way back are said before anything is sent."""
    hurried.knobs.gpu_used_s, hurried.knobs.hold = 20 * 3600, True
    done = ferry("push", *T4)
    assert done.code == 0, done.err
    line = done.err.splitlines()[0]
    assert line.startswith(
        "pushing to kaggle as alice: NvidiaTeslaT4 (2 × Tesla T4), suite official, 15 cases, about"
    )
    assert "min of the 10.0 h of GPU quota left; it stops by itself after" in line
    assert line.endswith(f"to come back: ferry pull {only_run().id}")
    [request] = hurried.calls("SaveKernel")
    asked_s = request.body["sessionTimeoutSeconds"]
    assert asked_s == only_run().spec.timeout_s and 900 <= asked_s <= 43_200
    assert request.body["kernelType"] == "notebook" and not request.body["enableInternet"]


def test_what_is_asked_for_is_the_limit(hurried: KaggleServer) -> None:
    """A --timeout of the user's own is sent as it is, and a script is pushed when it is asked for."""
    hurried.knobs.hold = True
    assert ferry("push", *T4, "--timeout", "9m", "--as", "script").code == 0
    [request] = hurried.calls("SaveKernel")
    assert (request.body["sessionTimeoutSeconds"], request.body["kernelType"]) == (540, "script")


def test_another_run_is_told(hurried: KaggleServer) -> None:
    """A push while another runs says what runs, and asks nobody."""
    first = held(hurried, *GPU)
    done = ferry("push", *ONE_CASE, *GPU)
    assert done.code == 0
    assert f"under way on this account already: alice/ferry-{first.id}-1 (queued)" in done.err


def test_quota_that_is_not_known(hurried: KaggleServer) -> None:
    """A push does not fail because nobody could say what is left."""
    hurried.knobs.hold = True
    hurried.knobs.faults = [Fault("GetAcceleratorQuotaStatistics", times=None)]
    done = ferry("push", *T4)
    assert done.code == 0
    assert "of a quota that is not known" in done.err


@pytest.mark.parametrize("trouble", ["error", "reset", "cut"])
def test_lost_answer_after_acceptance(hurried: KaggleServer, trouble: Trouble) -> None:
    """A push that was accepted without an answer is found: one session, one version."""
    hurried.knobs.hold = True
    hurried.knobs.faults = [Fault("SaveKernel", trouble, accepted=True)]
    done = ferry("push", *ONE_CASE)
    assert done.code == 0, done.err
    assert "the push had no answer" in done.err
    assert len(hurried.sessions) == 1
    assert states(only_run()) == ["intent", "queued"]


def test_lost_answer_of_what_is_unseen(hurried: KaggleServer) -> None:
    """A kernel that the service lists before it knows it is found too."""
    hurried.knobs.hold, hurried.knobs.unseen_s = True, 60
    hurried.knobs.faults = [Fault("SaveKernel", "reset", accepted=True)]
    assert ferry("push", *ONE_CASE).code == 0
    assert len(hurried.sessions) == 1


def test_no_answer_before_acceptance(hurried: KaggleServer) -> None:
    """A push that was not accepted is made again, after it has been looked for until it must be known."""
    hurried.knobs.hold = True
    hurried.knobs.faults = [Fault("SaveKernel", status=503)]
    done = ferry("push", *ONE_CASE)
    assert done.code == 0, done.err
    assert len(hurried.sessions) == 1
    assert len(hurried.calls("SaveKernel")) == 2
    assert len(hurried.calls("GetKernel")) >= 20  # five minutes of looks


def test_no_answer_at_all(hurried: KaggleServer) -> None:
    """A service that is down is exit 5; the intent stands, and a later pull completes the push, once."""
    hurried.knobs.faults = [Fault("SaveKernel", status=503, times=None)]
    done = ferry("push", *ONE_CASE)
    assert done.code == 5
    run = only_run()
    assert states(run) == ["intent"] and not run.is_finished
    hurried.knobs.faults, hurried.knobs.hold = [], True
    released(hurried, program(lines_of(passing(run), run.id)))
    assert ferry("pull").code == 0
    assert len(hurried.sessions) == 1
    assert states(run) == ["intent", "queued", *states(run)[2:]]


def test_a_refused_run_is_not_pushed_by_a_pull(hurried: KaggleServer) -> None:
    """A pull of what was refused says so and sends nothing; resume pushes it."""
    hurried.knobs.refusal = SLOTS
    assert ferry("push", *ONE_CASE).code == 7
    run = only_run()
    hurried.knobs.refusal, hurried.knobs.hold = "", True
    done = ferry("pull", run.id)
    assert done.code == 2
    assert "was not pushed, it is refused: " in done.err and f"ferry resume {run.id}" in done.err
    assert hurried.sessions == []
    assert ferry("resume", run.id).code == 0
    assert len(hurried.sessions) == 1


def test_waiting_for_a_slot(hurried: KaggleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --wait-for-slot the run is held here until a session has ended, and then pushed once."""
    first = [held(hurried, *GPU).id for _ in range(2)]
    monkeypatch.setattr("builder.submission.SLOT_S", "slot")
    free = functools.partial(hurried.kernels.delete, hurried.sessions[0].kernel)
    monkeypatch.setattr("builder.clock.SystemClock.sleep", at_nap("slot", free))
    done = ferry("push", *ONE_CASE, *GPU, "--wait-for-slot")
    assert done.code == 0, done.err
    assert "waits here for a free session; taken by alice/ferry-" in done.err
    [run] = [run for run in runs.all_runs() if run.id not in first]
    assert states(run) == ["held", "intent", "queued"]
    assert len(hurried.sessions) == 3


def test_a_slot_that_nobody_is_seen_to_take(hurried: KaggleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the service counts a session that it does not show, its refusal makes the run wait too."""
    first = held(hurried, *GPU).id
    hurried.knobs.gpu_slots = 1
    monkeypatch.setattr("builder.submission.SLOT_S", "slot")
    free = functools.partial(setattr, hurried.knobs, "gpu_slots", 2)
    monkeypatch.setattr("builder.clock.SystemClock.sleep", at_nap("slot", free))
    done = ferry("push", *ONE_CASE, *GPU, "--wait-for-slot")
    assert done.code == 0, done.err
    [run] = [run for run in runs.all_runs() if run.id != first]
    assert states(run) == ["intent", "refused", "held", "intent", "queued"]
    assert len(hurried.sessions) == 2


def test_ctrl_c_leaves_a_held_run_unpushed(hurried: KaggleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while waiting for a slot pushes nothing, nor does a pull; resume does."""
    for _ in range(2):
        held(hurried, *GPU)
    monkeypatch.setattr("builder.submission.SLOT_S", "slot")
    monkeypatch.setattr("builder.clock.SystemClock.sleep", at_nap("slot", press_ctrl_c))
    done = ferry("push", *ONE_CASE, *GPU, "--wait-for-slot")
    assert done.code == 130
    run = runs.all_runs()[0]
    assert "was not pushed: no session was free" in done.err and f"ferry resume {run.id}" in done.err
    assert states(run) == ["held"]
    assert ferry("pull", run.id).code == 2
    assert len(hurried.sessions) == 2
    hurried.kernels.delete(hurried.sessions[0].kernel)
    assert ferry("resume", run.id).code == 0
    assert len(hurried.sessions) == 3


def test_stop_ends_a_wait_for_a_slot(hurried: KaggleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped from another shell a held run is pushed neither by its waiter nor by a pull, but by resume."""
    for _ in range(2):
        held(hurried, *GPU)
    stopped = []

    def stop_it() -> None:
        stopped.append(ferry("stop", "--json", runs.all_runs()[0].id))
        hurried.kernels.delete(hurried.sessions[0].kernel)

    monkeypatch.setattr("builder.submission.SLOT_S", "slot")
    monkeypatch.setattr("builder.clock.SystemClock.sleep", at_nap("slot", stop_it))
    done = ferry("push", *ONE_CASE, *GPU, "--wait-for-slot")
    run = runs.all_runs()[0]
    [stop] = stopped
    assert stop.code == 0, stop.out
    assert (stop.document["run_id"], stop.document["state"]) == (run.id, "cancelled")
    assert done.code == 2
    assert f"run {run.id} was stopped before it was pushed" in done.err
    assert states(run) == ["held", "cancelled"] and run.is_finished
    assert ferry("pull", run.id).code == 2
    assert len(hurried.sessions) == 2
    assert ferry("resume", run.id).code == 0
    assert len(hurried.sessions) == 3


def at_nap(sign: object, happens: Callable[[], None]) -> Callable[[object, object], None]:
    """A sleep that takes no time, in which something happens when it is the one with this sign."""

    def sleep(_: object, seconds: object) -> None:
        if seconds == sign:
            happens()

    return sleep


def press_ctrl_c() -> None:
    """Interrupt."""
    raise KeyboardInterrupt
