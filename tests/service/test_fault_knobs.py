"""One test for each way in which the service goes wrong: exit code, words, journal."""

from __future__ import annotations

import functools

import pytest

from builder.backends.kaggle.wire import Wire
from tests.service.asking import Asking
from tests.service.ferrying import ONE_CASE, Done, Hurried, ferry, only_run, pushed, states
from tests.service.kaggle.knobs import FORECAST_QUOTA, SLOTS, WEEKLY_QUOTA, Fault, Shape, WordForm
from tests.service.kaggle.server import KaggleServer

WHOLE = ["intent", "queued", "done", "fetched"]  # whether it was seen to run is a matter of luck
RUN_ID = "20261130-101112-abcdef"


def journal() -> list[str]:
    """The states of the only run's only part, without those in between."""
    return [state for state in states(only_run()) if state != "running"]


def check_good(done: Done) -> None:
    """One case has passed, exit 0, and the journal has the whole way."""
    assert done.code == 0, done.err
    assert "1 passed on Tesla T4" in done.err
    assert journal() == WHOLE


def check_refused(hurried: KaggleServer, words: str, code: int, hint: str) -> None:
    """A push with this refusal ends with the code, the service's words and a hint, and is never running."""
    hurried.knobs.refusal = words
    done = ferry("push", *ONE_CASE)
    assert done.code == code
    assert words in done.err and hint in done.err
    assert journal() == ["intent", "refused"]
    assert hurried.sessions == []


def test_refused_for_slots(hurried: KaggleServer) -> None:
    """All sessions are taken: exit 7, and how to wait for one."""
    check_refused(hurried, SLOTS, 7, "--wait-for-slot")


def test_refused_for_weekly_quota(hurried: KaggleServer) -> None:
    """The week's hours are used up: exit 7, and until when."""
    check_refused(hurried, WEEKLY_QUOTA, 7, "until Saturday 00:00 UTC")


def test_refused_for_forecast_quota(hurried: KaggleServer) -> None:
    """Less is left than the run may take: exit 7, and how it may take less."""
    check_refused(hurried, FORECAST_QUOTA, 7, "a shorter --timeout")


@pytest.mark.parametrize("shape", ["flat", "nested"])
def test_error_shapes(hurried: KaggleServer, shape: Shape) -> None:
    """Either shape of an error is read alike: the service's words are shown, and a 400 is a refusal."""
    hurried.knobs.faults = [Fault("SaveKernel", status=400, message="The title is taken.", shape=shape)]
    done = ferry("push", *ONE_CASE)
    assert done.code == 2
    assert "Kaggle answered 400 to SaveKernel: The title is taken." in done.err
    assert journal() == ["intent", "refused"]


@pytest.mark.parametrize("shape", ["flat", "nested"])
def test_error_shapes_in_a_success(hurried: KaggleServer, shape: Shape) -> None:
    """An error inside a 200 is none the less one: nothing was accepted, and it is said."""
    hurried.knobs.faults = [Fault("SaveKernel", status=200, shape=shape, times=None)]
    done = ferry("push", *ONE_CASE)
    assert done.code == 5
    assert "Kaggle answered" in done.err
    assert hurried.sessions == []
    assert journal() == ["intent"]


def test_429_with_retry_after(hurried: KaggleServer) -> None:
    """The service is left alone for as long as it asks, and the run comes back."""
    pushed(hurried)
    hurried.knobs.faults = [Fault("GetKernelSessionStatus", status=429, retry_after="777")]
    began = Hurried.skipped
    check_good(ferry("pull"))
    assert Hurried.skipped - began >= 777 - 1


def test_429_without_retry_after(hurried: KaggleServer) -> None:
    """Without a wish of its own the service is asked again after pauses that grow."""
    pushed(hurried)
    hurried.knobs.faults = [Fault("GetKernelSessionStatus", status=429, times=5)]
    began = Hurried.skipped
    check_good(ferry("pull"))
    assert 20 < Hurried.skipped - began < 200


@pytest.mark.parametrize("retry_after", ["600", ""])
def test_429_without_end(hurried: KaggleServer, retry_after: str) -> None:
    """A push that is never let in is exit 5 with the service's words; the intent stands."""
    hurried.knobs.faults = [Fault("SaveKernel", status=429, retry_after=retry_after, times=None)]
    done = ferry("push", *ONE_CASE)
    assert done.code == 5
    assert "Kaggle answered 429 to SaveKernel" in done.err
    assert ("left alone for 600 s" if retry_after else "try again in a minute") in done.err
    assert journal() == ["intent"]
    assert hurried.sessions == []


@pytest.mark.parametrize("status", [500, 502, 503])
def test_5xx_before_acceptance(hurried: KaggleServer, status: int) -> None:
    """A push that was not accepted is looked for, and then made again: one session."""
    hurried.knobs.hold = True
    hurried.knobs.faults = [Fault("SaveKernel", status=status)]
    done = ferry("push", *ONE_CASE)
    assert done.code == 0
    assert f"the push had no answer (Kaggle answered {status} to SaveKernel" in done.err
    assert journal() == ["intent", "queued"]
    assert (len(hurried.calls("SaveKernel")), len(hurried.sessions)) == (2, 1)


@pytest.mark.parametrize("status", [500, 502, 503])
def test_5xx_after_acceptance(hurried: KaggleServer, status: int) -> None:
    """A push that was accepted all the same is found and not made again: one session."""
    hurried.knobs.hold = True
    hurried.knobs.faults = [Fault("SaveKernel", status=status, accepted=True)]
    done = ferry("push", *ONE_CASE)
    assert done.code == 0
    assert f"the push had no answer (Kaggle answered {status} to SaveKernel" in done.err
    assert journal() == ["intent", "queued"]
    assert (len(hurried.calls("SaveKernel")), len(hurried.sessions)) == (1, 1)


def test_html_labelled_json(hurried: KaggleServer) -> None:
    """A web page is no answer, whatever it is labelled: it is asked again, and in the end said."""
    pushed(hurried)
    page = functools.partial(Fault, "GetKernelSessionStatus", status=200, shape="html as json")
    hurried.knobs.faults = [page(times=None)]
    done = ferry("pull")
    assert done.code == 5
    assert "a web page came instead of Kaggle's answer to GetKernelSessionStatus" in done.err
    assert journal() == ["intent", "queued"]
    hurried.knobs.faults = [page(times=2)]
    check_good(ferry("pull"))


def test_silence(hurried: KaggleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """No call waits for ever: a silent push is looked for, a silent question asked again."""
    monkeypatch.setattr("builder.backends.kaggle.Wire", functools.partial(Wire, read_s=0.5))
    hurried.knobs.faults = [Fault("SaveKernel", "silence", accepted=True)]
    pushed(hurried)
    assert len(hurried.sessions) == 1
    hurried.knobs.faults = [Fault("GetKernelSessionStatus", "silence", times=None)]
    done = ferry("pull", "--no-wait")
    assert done.code == 5
    assert "localhost did not answer GetKernelSessionStatus in time" in done.err
    assert journal() == ["intent", "queued"]
    hurried.knobs.faults = [Fault("GetKernelSessionStatus", "silence")]
    check_good(ferry("pull"))


@pytest.mark.parametrize("call", ["GetKernelSessionStatus", "ListKernelSessionOutput", "download"])
def test_cut_bodies(hurried: KaggleServer, call: str) -> None:
    """Half an answer is none: it is asked for again, and nothing of it stays."""
    pushed(hurried)
    hurried.knobs.faults = [Fault(call, "cut", times=2)]
    check_good(ferry("pull"))


def test_cut_bodies_without_end(hurried: KaggleServer) -> None:
    """A file that only ever comes in halves is missing, exit 5; the log alone makes the rows."""
    pushed(hurried)
    hurried.knobs.faults = [Fault("download", "cut", times=None)]
    done = ferry("pull")
    assert done.code == 5
    assert "missing: ferry-events.jsonl" in done.err and "1 passed on Tesla T4" in done.err
    assert journal() == ["intent", "queued", "done", "incomplete"]
    assert list((only_run().part(1) / "outputs").iterdir()) == []


def test_stale_status(hurried: KaggleServer, ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of an earlier version of the kernel, which the service still tells, is not the run's."""
    monkeypatch.setattr("builder.runs.new_run_id", lambda: RUN_ID)
    about = {"slug": f"alice/ferry-{RUN_ID}-1", "newTitle": f"ferry-{RUN_ID}-1"}
    assert ask.run("raise SystemExit(1)", **about).status == "ERROR"
    hurried.knobs.stale_s = 60
    run = pushed(hurried)
    accepted = run.submission(1)
    assert accepted is not None and accepted.reference.endswith("/2")
    unversioned = ask("GetKernelSessionStatus", kernelSlug=accepted.slug)
    assert unversioned["status"] == "ERROR", "the knob does not bite"
    check_good(ferry("pull"))


def test_unknown_status(hurried: KaggleServer) -> None:
    """A word that nobody knows is a state of its own, with a limit: exit 5, and the word is shown."""
    run = pushed(hurried)
    hurried.knobs.status_word = "PONDERING"
    done = ferry("pull")
    assert done.code == 5
    assert f"run {run.id} is in a state unknown to ferry" in done.err and "PONDERING" in done.err
    assert journal() == ["intent", "queued", "unknown"]
    assert not run.is_finished


def test_missing_status(hurried: KaggleServer) -> None:
    """No word at all is unknown too, and never taken for a queue."""
    pushed(hurried)
    hurried.knobs.status_word = ""
    done = ferry("pull")
    assert done.code == 5
    assert "Kaggle's answer has no status in it" in done.err
    assert journal() == ["intent", "queued", "unknown"]


def test_empty_log(hurried: KaggleServer) -> None:
    """An empty log costs nothing when the results file is there."""
    hurried.knobs.log_empty = True
    pushed(hurried)
    check_good(ferry("pull"))


@pytest.mark.parametrize("status", [403, 200])
def test_expired_link(hurried: KaggleServer, status: int) -> None:
    """An expired link's page is never a file; the log alone makes the rows; a second pull completes it."""
    hurried.knobs.link_life_s, hurried.knobs.dead_link_status = -1, status
    pushed(hurried)
    done = ferry("pull")
    assert done.code == 5
    assert "missing: ferry-events.jsonl" in done.err and "1 passed on Tesla T4" in done.err
    assert journal() == ["intent", "queued", "done", "incomplete"]
    assert list((only_run().part(1) / "outputs").iterdir()) == []
    hurried.knobs.link_life_s = 3600
    assert ferry("pull").code == 0
    assert journal()[-1] == "fetched" and only_run().is_finished


def test_short_file(hurried: KaggleServer) -> None:
    """A file that comes short is not kept, exit 5; the log alone makes the rows."""
    hurried.knobs.short_by = 7
    pushed(hurried)
    done = ferry("pull")
    assert done.code == 5
    assert "missing: ferry-events.jsonl" in done.err and "1 passed on Tesla T4" in done.err
    assert journal() == ["intent", "queued", "done", "incomplete"]
    assert list((only_run().part(1) / "outputs").iterdir()) == []


def test_short_file_that_owns_up(hurried: KaggleServer) -> None:
    """Of a file whose length was changed on the way nobody can tell; its half lines are no results."""
    hurried.knobs.short_by, hurried.knobs.short_openly = 7, True
    pushed(hurried)
    check_good(ferry("pull"))


def test_hostile_file_name(hurried: KaggleServer) -> None:
    """A name that leads out of the folder is refused and told, and costs no other file."""
    bad = ("../../evil.txt", "/etc/evil", "a\\..\\b")
    hurried.knobs.hostile_files = {**dict.fromkeys(bad, b"x"), "sub/ok.txt": b"y"}
    run = pushed(hurried)
    done = ferry("pull")
    assert all(f"refused: {name} (its name leads out of the folder)" in done.err for name in bad)
    check_good(done)
    outputs = run.part(1) / "outputs"
    names = {path.relative_to(outputs).as_posix() for path in outputs.rglob("*") if path.is_file()}
    assert names == {"ferry-events.jsonl", "sub/ok.txt"}
    assert not list(run.folder.parent.rglob("*evil*"))


def test_duplicate_pages(hurried: KaggleServer) -> None:
    """Pages that come twice bring each file once, and pages without an end have one here."""
    hurried.knobs.page_limit, hurried.knobs.page_repeats = 2, True
    run = pushed(hurried, "for number in range(5):\n    open(f'{number}.bin', 'w').write('x')")
    check_good(ferry("pull"))
    assert len(list((run.part(1) / "outputs").iterdir())) == 6
    assert len(hurried.calls("download")) == 6


@pytest.mark.parametrize("form", ["lower", "camel", "prefixed"])
def test_lower_case_statuses(hurried: KaggleServer, form: WordForm) -> None:
    """Each spelling of a status means the same."""
    hurried.knobs.status_form = form
    pushed(hurried)
    check_good(ferry("pull"))
