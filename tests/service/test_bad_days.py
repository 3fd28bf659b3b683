"""Days on which several things go wrong at once: what must not be lost, doubled, or made to look good."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from builder import runs
from builder.backends.kaggle import Kaggle
from builder.runs import Run
from tests.service.ferrying import (
    ONE_CASE,
    Hurried,
    ferry,
    held,
    only_run,
    pushed,
    released,
    states,
)
from tests.service.kaggle.knobs import Fault
from tests.service.kaggle.server import KaggleServer

CHATTY = "import time\nwhile True:\n    print('tick', flush=True)\n    time.sleep(0.05)\n"
STAYING = "import time\ntime.sleep(99)"


def running(kaggle: KaggleServer, rest: str, records: int = 1) -> Run:
    """Have a run whose case has passed and whose program stays; it has said so many records."""
    run = pushed(kaggle, rest)
    while len(kaggle.sessions[0].log.records) < records:
        time.sleep(0.01)
    return run


def test_invalid_sources_are_refused_for_good(hurried: KaggleServer) -> None:
    """A kernel without what it was meant to have is refused also when it cannot be taken back, and told."""
    hurried.knobs.invalid = {"invalidModelSources": ["a/b"]}
    hurried.knobs.faults = [Fault("DeleteKernel", times=None)]
    done = ferry("push", *ONE_CASE)
    assert done.code == 2
    assert states(only_run()) == ["intent", "refused"]
    assert "the kernel may run" in done.err and "delete it on Kaggle's site" in done.err


@pytest.mark.parametrize("command", [("pull",), ("stop", "--yes")])
def test_another_account_gets_no_second_session(
    hurried: KaggleServer, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted push is neither repeated nor given up with another account's credential."""
    hurried.knobs.faults = [
        Fault("SaveKernel", "reset", accepted=True),
        Fault("GetKernel", times=None),
        Fault("ListKernels", times=None, skip=1),
    ]
    assert ferry("push", *ONE_CASE).code == 5
    hurried.knobs.faults = []
    with monkeypatch.context() as patched:
        for name, value in hurried.environment("bobby").items():
            patched.setenv(name, value)
        done = ferry(*command)
        assert (done.code, len(hurried.sessions)) == (2, 1)
        assert "was pushed as alice, and the credential here is of bobby" in done.err
    assert ferry("status").code == 0
    assert states(only_run()) == ["intent"]


def test_a_clock_that_was_put_back_makes_no_long_wait(hurried: KaggleServer) -> None:
    """A push in a journal of the future is looked for no longer than one of this moment."""
    hurried.knobs.faults = [Fault("SaveKernel", times=None)]
    assert ferry("push", *ONE_CASE).code == 5
    hurried.knobs.faults = []
    run = only_run()
    journal = run.folder / "journal.jsonl"
    [entry] = map(json.loads, journal.read_text().splitlines())
    journal.write_text(json.dumps(entry | {"at": "2126-01-01T00:00:00+00:00"}) + "\n")
    began = Hurried.skipped
    hurried.knobs.hold = True
    assert ferry("pull", "--no-wait").code == 4
    assert Hurried.skipped - began < 600
    assert len(hurried.sessions) == 1


def test_a_clock_that_jumps_makes_no_second_session(
    hurried: KaggleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A push that is not seen at once is looked for as long as ever, whatever the wall clock says."""
    monkeypatch.setattr("builder.clock.SystemClock.now", lambda _: time.time() + 86_400)
    hurried.knobs.hold = True
    hurried.knobs.faults = [Fault("SaveKernel", "reset", accepted=True)]
    find, unseen = Kaggle.find, iter(range(5))
    monkeypatch.setattr(
        Kaggle, "find", lambda *given: None if next(unseen, None) is not None else find(*given)
    )
    assert ferry("push", *ONE_CASE).code == 0
    assert len(hurried.sessions) == 1


def test_a_talkative_run_is_stopped_with_its_log(
    hurried: KaggleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log of a program that is never silent is kept as far as it has come."""
    monkeypatch.setattr("builder.stopping.KEEP_S", 1.0)
    running(hurried, CHATTY, records=20)
    assert ferry("stop", "--yes").code == 0
    assert hurried.sessions[0].kernel.deleted
    assert ferry("pull", "--json").document["counts"] == {"passed": 1}


def test_a_talkative_run_shows_its_log_so_far(hurried: KaggleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without -f the log is printed as far as it has come, also while the program goes on talking."""
    monkeypatch.setattr("builder.cli.logs.LIVE_S", 1.0)
    running(hurried, CHATTY, records=20)
    done = ferry("logs")
    assert (done.code, "tick" in done.out) == (0, True)
    assert not hurried.sessions[0].ended


def test_a_log_that_is_slow_to_begin_is_waited_for(hurried: KaggleServer) -> None:
    """Nothing is deleted before what had come of the log is here."""
    running(hurried, STAYING)
    hurried.knobs.stream_silence_s = 4
    assert ferry("stop", "--yes").code == 0
    assert ferry("pull", "--json").document["counts"] == {"passed": 1}


def test_a_log_that_never_begins_stops_nothing(
    hurried: KaggleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When nothing comes of the log, nothing is deleted unless that is said."""
    monkeypatch.setattr("builder.stopping.BEGIN_S", 1.0)
    running(hurried, STAYING)
    hurried.knobs.stream_silence_s = 30
    done = ferry("stop", "--yes")
    assert done.code == 5
    assert "nothing was stopped" in done.err and "--lose-log" in done.err
    assert not hurried.sessions[0].kernel.deleted


def test_a_service_that_is_away_is_told_soon(hurried: KaggleServer) -> None:
    """Who does not wait is told soon that nobody answers; who waits, that the state is an old one."""
    run = held(hurried)
    hurried.knobs.faults = [Fault("*", times=None)]
    began = Hurried.skipped
    assert ferry("logs").code == 5
    assert Hurried.skipped - began < 60
    done = ferry("pull", "--wait", "90s")
    assert done.code == 124
    assert f"run {run.id} was queued when last heard of" in done.err and "503" in done.err


@pytest.mark.parametrize("pulled", [False, True])
def test_logs_of_a_failed_run_say_so_each_time(hurried: KaggleServer, pulled: bool) -> None:
    """The exit code of `logs -f` is the same whether the log is still there or here already."""
    run = held(hurried)
    released(hurried, "print('zeile', flush=True)\nraise SystemExit(3)")
    if pulled:
        ferry("pull")
    done = ferry("logs", "-f", run.id)
    assert (done.code, "zeile" in done.out) == (4, True)
    assert f"run {run.id} ended failed" in done.err


def test_many_missing_files_are_told_in_few_words(hurried: KaggleServer) -> None:
    """Sixty files that cannot be had are neither a line each nor a journal line without end."""
    pushed(hurried, "for number in range(60):\n    open(f'f{number:03}.bin', 'w').write('x')")
    hurried.knobs.faults = [Fault("download", times=None, status=500)]
    done = ferry("pull")
    assert done.code == 5
    assert "and 41 more missing; outputs.json names them all" in done.err
    assert len(done.err.splitlines()) < 40
    assert max(len(entry.detail) for entry in only_run().journal()) < 500
    hurried.knobs.faults = []
    assert ferry("pull", only_run().id).code == 0
    assert len(list((only_run().part(1) / "outputs").iterdir())) == 61


def test_ctrl_c_names_its_own_run(hurried: KaggleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two runs that are pushed at once, each interruption is told of the right one."""
    hurried.knobs.hold = True

    def meanwhile(*_: object) -> list[str]:
        with monkeypatch.context() as patched:
            patched.setattr("builder.backends.kaggle.Kaggle.active", lambda _: [])
            assert ferry("push", *ONE_CASE, "--name", "other").code == 0
        raise KeyboardInterrupt

    monkeypatch.setattr("builder.backends.kaggle.Kaggle.active", meanwhile)
    done = ferry("push", *ONE_CASE, "--name", "mine", "--json")
    [mine] = [run for run in runs.all_runs() if run.spec.name == "mine"]
    assert (done.code, done.document["run_id"], states(mine)) == (130, mine.id, [])
    assert f"run {mine.id} was not pushed" in done.document["error"]["message"]


@pytest.mark.parametrize(
    "proxy", ["http://al:geheim@", "http://al:ge/heim@127.0.0.1:1", "http://al:geheim@[::1"]
)
def test_a_malformed_proxy_is_one_sentence(
    hurried: KaggleServer, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the library cannot read of a proxy's address is told with a hint, and with no password."""
    monkeypatch.setenv("HTTP_PROXY", proxy)
    for command in (("quota",), ("doctor", "--backend", "kaggle")):
        done = ferry(*command)
        assert done.code in (3, 5), done.err
        assert "Traceback" not in done.err and "heim" not in done.err
        assert "HTTP_PROXY" in done.err or "doctor" in done.err


def test_no_home(hurried: KaggleServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user without a home directory is told so in one sentence."""

    def nowhere(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", nowhere)
    done = ferry("quota")
    assert done.code == 2
    assert "no home directory" in done.err and "HOME" in done.err and "Traceback" not in done.err
