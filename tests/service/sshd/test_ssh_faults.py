"""A connection breaks, hangs or is refused at the worst moment, and nothing is lost: real sshd and cuts."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from builder import backends, submission
from builder.backends import State, Submission
from builder.backends.ssh import Ssh, calls
from builder.backends.ssh.calls import Profile
from builder.clock import SystemClock
from builder.errors import InfrastructureError, RefusedThereError, UsageError
from builder.runs import Run
from builder.spec import RunSpec
from builder.waiting import Watch
from tests.service.sshd.backing import FOREVER, folder_of, part, started, until, until_state
from tests.service.sshd.server import Sshd, free_port, sshd
from tests.service.sshd.wire import Wire

TALKATIVE = """
import os, time
print("x" * 299_999, flush=True)
while not os.path.exists("../go"):
    time.sleep(0.1)
print("the end", flush=True)
"""
LARGE = "import os\nopen('large.bin', 'wb').write(os.urandom(3_000_000))\nos.symlink('/etc/passwd', 'leak')\n"


@pytest.fixture
def place(box1: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Ssh]]:
    """Makes backends from a project's profile; what they have started is stopped at the end."""
    monkeypatch.chdir(tmp_path)
    folder = box1.there / tmp_path.name

    def make(**keys: object) -> Ssh:
        box1.project(tmp_path, **{"folder": str(folder), **keys})
        made = backends.load("ssh:box1")
        assert isinstance(made, Ssh)
        return made

    yield make
    for run in folder.glob("ferry-*"):
        make().stop(Submission("ssh:box1", f"box1:{run}", run.name))


def starts(tmp_path: Path) -> str:
    """A kernel that writes down each of its starts."""
    return f"open({str(tmp_path / 'starts')!r}, 'a').write('x')\n{FOREVER}"


def refused(call: Callable[[], object]) -> None:
    """Make a call whose connection breaks."""
    with pytest.raises(InfrastructureError):
        call()


# --- a whole life -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["machine", "strange_machine"])
def test_a_run_crosses_and_comes_back(
    who: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Log, outputs and end come back from whoever's account it is; a link that leads out is no output."""
    served: Sshd = request.getfixturevalue(who)
    for name, value in served.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    served.project(tmp_path, python="python3")
    backend = backends.load("ssh:box1")
    accepted = backend.submit(part(LARGE + "print(os.getuid())"))
    until_state(backend, accepted, State.DONE)
    assert b"".join(backend.follow_log(accepted)).decode().strip() == str(folder_of(accepted).stat().st_uid)
    [file] = backend.list_outputs(accepted)
    assert (file.name, file.size) == ("large.bin", 3_000_000)
    assert (
        b"".join(backend.fetch_output(accepted, file))
        == (folder_of(accepted) / "work/large.bin").read_bytes()
    )
    with pytest.raises(InfrastructureError, match="box1: leak leads out"):
        list(backend.fetch_output(accepted, backends.OutputFile("leak")))
    with pytest.raises(InfrastructureError, match="none: No such file"):
        list(backend.fetch_output(accepted, backends.OutputFile("none")))


def test_a_host_without_a_profile_is_used_as_it_is(
    box1: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ssh:box1` is what `ssh box1` knows; `ssh` alone asks which machine is meant."""
    monkeypatch.chdir(tmp_path)
    backend = backends.load("ssh:box1")
    assert backend.account() == ""
    lost = backend.status([Submission("ssh:box1", f"box1:{tmp_path}/none", "none")])
    assert lost[0].state is State.LOST
    with pytest.raises(UsageError, match="needs a machine"):
        backends.load("ssh").account()


# --- cut --------------------------------------------------------------------------------------------------


def test_a_cut_before_the_kernel_is_there_starts_nothing(
    place: Callable[..., Ssh], frail: Wire, tmp_path: Path
) -> None:
    """It is not found, and the next submit starts it."""
    backend, intent = place(host="frail"), part(starts(tmp_path) + "#" * 400_000)
    refused(lambda: _with(frail, 200_000, lambda: backend.submit(intent)))
    assert backend.find(intent) is None
    accepted = started(backend, intent)
    assert (tmp_path / "starts").read_text() == "x"
    assert backend.find(intent) == accepted


def _with(frail: Wire, most: int, call: Callable[[], object]) -> object:
    """Make a call whose connection is cut after so many bytes; the wire is whole afterwards."""
    frail.most = most
    try:
        return call()
    finally:
        frail.mend()


def test_a_lost_reply_is_found_and_not_submitted_again(
    place: Callable[..., Ssh], frail: Wire, box1: Sshd, tmp_path: Path
) -> None:
    """Cut between the start and its reply, the whole policy comes to one submission of one kernel."""
    backend, run = place(host="frail"), _run(tmp_path)
    folder = box1.there / tmp_path.name
    frail.cut_when = lambda: bool(list(folder.glob("ferry-*/keeper.json")))
    told = []

    def tell(sentence: str) -> None:
        frail.mend()
        told.append(sentence)

    accepted = submission.submit(run, 1, backend, SystemClock(), tell)
    assert "had no answer" in told[0]
    assert accepted.reference.startswith("frail:")
    until((tmp_path / "starts").exists)
    assert backend.submit(submission.intent(run, 1)) == accepted
    assert (tmp_path / "starts").read_text() == "x"
    assert [entry.state for entry in run.journal()] == ["intent", "queued"]


def _run(tmp_path: Path) -> Run:
    """A run with one part, on disk."""
    from builder import runs

    spec = RunSpec("smoke", (), "20261130-101112-abcdef", backend="ssh:box1", accelerator="any")
    with runs.create(spec) as draft:
        draft.part(1).mkdir(parents=True)
        (draft.part(1) / "kernel.py").write_text(starts(tmp_path))
    return Run(runs.runs_root() / spec.run_id)


def test_a_log_goes_on_at_the_byte_reached(place: Callable[..., Ssh], frail: Wire) -> None:
    """After a cut the log is whole, and what had come is not carried again."""
    backend = place(host="frail")
    accepted = backend.submit(part(TALKATIVE))
    until(lambda: folder_of(accepted).joinpath("log.raw").exists())
    blocks, seen = backend.follow_log(accepted), b""
    with contextlib.suppress(InfrastructureError):
        for block in blocks:
            seen += block
            if len(seen) >= 200_000:
                frail.cut()
    assert 200_000 <= len(seen) <= 300_000
    (folder_of(accepted) / "go").touch()
    frail.carried = 0
    whole = b"".join(backend.follow_log(accepted))
    assert whole == b"x" * 299_999 + b"\nthe end\n"
    assert frail.carried < 250_000


def test_an_output_that_is_cut_is_fetched_again(place: Callable[..., Ssh], frail: Wire) -> None:
    """Half a file is an error and never a file; the second time it comes whole."""
    backend = place(host="frail")
    accepted = backend.submit(part(LARGE))
    until_state(backend, accepted, State.DONE)
    [file] = backend.list_outputs(accepted)
    refused(lambda: _with(frail, 1_000_000, lambda: list(backend.fetch_output(accepted, file))))
    assert len(b"".join(backend.fetch_output(accepted, file))) == 3_000_000


def test_a_run_outlives_every_connection(place: Callable[..., Ssh], box1: Sshd) -> None:
    """Neither the end of the shared connection nor that of its process over there reaches the run."""
    backend = place()
    accepted = started(backend, part(FOREVER))
    os.kill(box1.connection(), signal.SIGKILL)
    assert backend.status([accepted])[0].state is State.RUNNING


# --- silent, refused --------------------------------------------------------------------------------------


def test_a_silent_machine_is_given_up_in_time(
    place: Callable[..., Ssh], frail: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question has a deadline, and a followed log ends when the machine does not answer any more."""
    monkeypatch.setattr(calls, "ASK_S", 2.0)
    monkeypatch.setenv("FERRY_SSH", os.environ["FERRY_SSH"] + " -o ServerAliveInterval=2")
    backend = place(host="frail")
    accepted = started(backend, part(FOREVER))
    blocks = backend.follow_log(accepted)
    until(lambda: next(blocks) == b"up\n")
    frail.silent = True
    with pytest.raises(InfrastructureError):
        list(blocks)
    with pytest.raises(InfrastructureError, match="frail gave no answer within 2 s"):
        backend.status([accepted])
    frail.mend()
    monkeypatch.setattr(calls, "ASK_S", 60.0)
    assert backend.status([accepted])[0].state is State.RUNNING


def test_a_wait_bears_a_broken_connection(place: Callable[..., Ssh], frail: Wire, tmp_path: Path) -> None:
    """Whoever waits sees every byte of the log once, and the end, although the wire is cut on the way."""
    backend, run = place(host="frail"), _run(tmp_path)
    (run.part(1) / "kernel.py").write_text(TALKATIVE)
    accepted = submission.submit(run, 1, backend, SystemClock())
    seen, cuts = b"", 0
    for news in Watch(run, 1, accepted, backend, SystemClock(), 120.0).events():
        if isinstance(news, bytes):
            seen += news
            if seen and not cuts:
                frail.cut()
                cuts += 1
                (folder_of(accepted) / "go").touch()
    assert cuts == 1
    assert seen == b"x" * 299_999 + b"\nthe end\n"
    assert run.told(1) is State.DONE


def test_a_folder_that_is_not_ours_refuses(
    strange_machine: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user without rights is told which folder cannot be made."""
    monkeypatch.setenv("FERRY_SSH", strange_machine.environment["FERRY_SSH"])
    monkeypatch.chdir(tmp_path)
    strange_machine.project(tmp_path, python="python3", folder="/ferry-runs")
    with pytest.raises(RefusedThereError, match="box1: /ferry-runs: Permission denied"):
        backends.load("ssh:box1").submit(part("print(1)"))


# --- a pool -----------------------------------------------------------------------------------------------


@pytest.fixture
def other_machine() -> Iterator[Sshd]:
    """Another machine: `$WHICH` in a folder's name tells them apart."""
    with sshd(settings="SetEnv WHICH=other\n") as started:
        yield started


def test_a_pool_gives_a_run_to_the_least_busy_host(machine: Sshd, other_machine: Sshd) -> None:
    """Hosts that do not answer get nothing; of those that do, the one with the fewest runs gets it."""
    machine.name("down", free_port())
    ways = {"box1": machine.runner(), "box2": other_machine.runner(), "down": machine.runner("down")}
    profile = Profile(hosts=tuple(ways), folder=f"{other_machine.there}/pool-$WHICH")
    pool = Ssh("pool", profile, lambda host: ways[host])
    runs = [started(pool, part(FOREVER, number)) for number in (1, 2)]
    assert [run.reference.partition(":")[0] for run in runs] == ["box1", "box2"]
    assert pool.find(part(FOREVER, 3)) is None
    assert {status.state for status in pool.status(runs)} == {State.RUNNING}
    for run in runs:
        pool.stop(run)
    alone = Ssh("pool", replace(profile, hosts=("down", "down")), lambda host: ways[host])
    with pytest.raises(InfrastructureError, match="Connection refused"):
        alone.submit(part(FOREVER, 4))


# --- doctor -----------------------------------------------------------------------------------------------


def test_doctor_says_what_a_machine_has(place: Callable[..., Ssh], box1: Sshd, tmp_path: Path) -> None:
    """Way, Python, torch, cards and folder are looked at; what is wrong has a way to mend it."""
    box1.name("down", free_port())
    found = {finding.what: finding for finding in place(hosts=["box1", "down"]).checks()}
    assert list(found) == [f"box1 {what}" for what in ("ssh", "python", "torch", "cards", "folder")] + [
        "down ssh"
    ]
    assert [finding.what for finding in found.values() if finding.mend] == ["down ssh"]
    assert str(box1.there) in found["box1 folder"].detail
    [*_, last] = place(setup=["false"]).checks()
    assert "setup line 'false' failed" in last.detail
    with (tmp_path / "ferry.toml").open("a") as file:
        file.write("[backends.ssh.wrong]\nhots = 1\n")
    every = [finding.what for finding in Ssh().checks()]
    assert every == ["box1 ssh", "box1 python", "profile wrong"]
