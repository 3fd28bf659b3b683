"""How a run ends: deadline, signals, a reader that left, a kill and a second attempt, the wrong machine."""

import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.events import CaseDone, Note, Plan, RunRef, Started
from harness.shapes import SHAPES, Case
from tests.kernel.driving import Kernel, Log, case, kernel, order, unpack

__all__ = ["kernel"]

HANG = case("hangs")
GIANT = Case(replace(SHAPES["s14"], batch=320_000))
SOUND = [case("", shape) for shape in ("t01", "t02", "t03")]
REF = RunRef("20260102-030405-abcdef", 2, "c0ffee", True)


def until(driver: subprocess.Popen[str], kind: type[Started | CaseDone], case_id: str) -> list[str]:
    """Read the driver's lines until one is an event of this kind about this case."""
    assert driver.stdout is not None
    lines: list[str] = []
    for line in driver.stdout:
        lines.append(line.rstrip("\n"))
        for event in Log(lines[-1:]).events:
            if isinstance(event.body, kind) and event.body.case_id == case_id:
                return lines
    raise AssertionError(f"no {kind.__name__} of {case_id} in {lines}")


def test_deadline_cuts_and_tells(kernel: Kernel) -> None:
    """Before the deadline the running case is cut, the others are told as not run, and the run is closed."""
    log = kernel.run(
        order(HANG, SOUND[0], timeout_s=600.0), "--deadline", "25s"
    )  # of a busy machine, too, it has begun by then
    assert (log.code, log.end.reason) == (0, "deadline")
    assert log.end.counts == {"not_run": 2}
    assert log.end.wall_s < 25
    assert re.fullmatch(r"cut after .* the run's deadline has come", log.done[HANG.id].error)
    assert log.done[SOUND[0].id].error == "not started: the run's deadline has come"
    kernel.wait_until_alone()
    assert kernel.processes() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_signal_ends_like_a_deadline(kernel: Kernel, number: signal.Signals) -> None:
    """A signal cuts the running case and closes the run with reason `stopped` and exit code 0."""
    driver = kernel.start(order(HANG, SOUND[0]))
    lines = until(driver, Started, HANG.id)
    driver.send_signal(number)
    rest, errors = driver.communicate(timeout=60)
    log = Log(lines + rest.splitlines(), driver.returncode, errors)
    assert (log.code, log.end.reason, log.end.counts) == (0, "stopped", {"not_run": 2}), log.stderr
    assert log.done[HANG.id].error_kind == "stopped"


@pytest.mark.slow
def test_reader_that_leaves_does_not_stop_the_run(kernel: Kernel) -> None:
    """When nobody reads stdout any more, the run goes on and the file has every event."""
    driver = kernel.start(order(SOUND[0], case("floods")))
    assert driver.stdout is not None
    driver.stdout.readline()
    driver.stdout.close()
    driver.communicate(timeout=120)
    assert driver.returncode == 0
    log = Log(kernel.events_file.read_text().splitlines())
    assert log.end.counts == {"passed": 2}


def test_stdout_that_was_never_open(kernel: Kernel) -> None:
    """A driver that is started without a stdout writes its events to the file alone."""
    kernel.start(order(SOUND[0], asked_accelerator="T4")).communicate()  # leaves order.json there
    driver = subprocess.run(
        ["sh", "-c", f"exec '{sys.executable}' -m harness.driver order.json >&-"],
        cwd=kernel.folder,
        env={**os.environ, "PYTHONPATH": str(kernel.root)},
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert driver.returncode == 0
    assert Log(kernel.events_file.read_text().splitlines()).end.reason == "wrong_accelerator"


def test_wrong_accelerator_runs_nothing(kernel: Kernel) -> None:
    """When the machine is not what was asked for, it is named, no case runs, and the driver says why."""
    log = kernel.run(order(*SOUND, asked_accelerator="H200"))
    assert (log.code, log.end.reason, log.end.counts) == (0, "wrong_accelerator", {"not_run": 3})
    assert log.kinds() == ["Plan", *["Planned"] * 3, "Hardware", "Device", *["CaseDone"] * 3, "End"]
    assert log.done[SOUND[0].id].error_kind == "wrong_accelerator"


def test_mismatch_can_be_allowed(kernel: Kernel) -> None:
    """With leave to differ the cases run, and each row says what was asked for."""
    log = kernel.run(order(SOUND[0], GIANT, asked_accelerator="any", allow_mismatch=True))
    assert log.done[SOUND[0].id].status == "passed"
    assert all(
        done.flags["mismatch"].startswith("asked for any GPU, got no GPU (") for done in log.done.values()
    )
    check_infeasible(log)


def check_infeasible(log: Log) -> None:
    """A case whose input and output outgrow the memory states the bytes and is no failure."""
    done = log.done[GIANT.id]
    assert (done.status, done.flags["timed_short"]) == ("infeasible", "1/3/1")
    assert "need 524288000000000 bytes" in done.error
    assert log.end.counts == {"passed": 1, "infeasible": 1}


@pytest.fixture
def torchless(tmp_path: Path) -> Kernel:
    """A kernel on a machine that has no torch."""
    kernel = unpack(tmp_path)
    (kernel.root / "torch.py").write_text("print('tried')\nraise ImportError('no torch on this machine')\n")
    return kernel


def test_missing_torch_is_told_once_and_fast(torchless: Kernel) -> None:
    """Without torch every case is an error with the real reason, found out by one start."""
    shapes = ("t01", "t02", "t03", "t04", "t05")
    log = torchless.run(order(*(case("", shape, protocol="official") for shape in shapes)))
    assert [done.status for done in log.done.values()] == ["error"] * 5
    assert all(done.error.endswith("ImportError: no torch on this machine") for done in log.done.values())
    assert "takes no case: ImportError: no torch on this machine" in "".join(log.lines)
    assert log.lines.count("cpu| tried") <= 2  # judge and first worker start side by side
    assert log.end.reason == "complete"


def test_killed_run_is_continued(kernel: Kernel) -> None:
    """After a kill -9 a second attempt repeats the first one's events and runs only what is missing."""
    asked = order(*SOUND)
    driver = kernel.start(asked, ref=REF)
    until(driver, CaseDone, SOUND[0].id)
    os.killpg(driver.pid, signal.SIGKILL)
    driver.communicate()
    kernel.wait_until_alone()
    assert kernel.processes() == []
    whole = kernel.events_file.read_text()
    kept = Log(whole.splitlines())
    cut = kernel.folder / "earlier.jsonl"
    cut.write_text(
        whole + whole.splitlines()[-1][:-9]
    )  # as a machine that dies in the middle of a line leaves it
    log = kernel.run(asked, "--continue", cut.name, ref=REF)
    assert log.code == 0, log.stderr
    check_second_attempt(log, kept)
    assert kernel.events_file.read_text() == "".join(
        line + "\n" for line in log.lines if line not in log.chatter
    )


def check_second_attempt(log: Log, kept: Log) -> None:
    """The first attempt is there word for word; the second carries what is final and runs the rest."""
    assert log.lines[: len(kept.lines)] == kept.lines
    second = [event for event in log.events if event.name.attempt == 2]
    assert {(event.name.run, event.name.part) for event in log.events} == {(REF.run_id, 2)}
    plan = second[0].body
    assert isinstance(plan, Plan)
    finished = len(kept.done)
    assert (plan.ref, plan.planned, plan.carried) == (REF, 3, finished)
    started = [event.body.case_id for event in second if isinstance(event.body, Started)]
    assert started == [asked.id for asked in SOUND if asked.id not in kept.done]
    assert [event.name.seq for event in second] == list(range(1, len(second) + 1))
    assert any(isinstance(event.body, Note) for event in second)
    assert log.end.counts == {"passed": 3}


def test_continue_refuses_what_is_not_its_own(kernel: Kernel) -> None:
    """A file of another run, another order, or no file at all is refused with a sentence and exit code 2."""
    kernel.run(order(*SOUND, asked_accelerator="H200"), ref=REF)
    earlier = kernel.events_file.rename(kernel.folder / "other.jsonl")
    refusals = [
        kernel.run(order(*SOUND), "--continue", earlier.name, ref=RunRef("20260102-030405-000000")),
        kernel.run(order(*SOUND[:2]), "--continue", earlier.name),
        kernel.run(order(*SOUND[:2], case("", "t03", dtype="float16")), "--continue", earlier.name),
        kernel.run(order(*SOUND, seeds=3), "--continue", earlier.name),
        kernel.run(order(*SOUND), "--continue", "absent.jsonl"),
    ]
    assert [log.code for log in refusals] == [2] * 5
    assert [log.lines for log in refusals] == [[]] * 5
    words = [
        f"holds run {REF.run_id}, part 2; this is run 20260102-030405-000000, part 1",
        "belongs to an order of 3 cases, this one has 2",
        "belongs to another order",
        "written with other code or terms",
        "cannot read absent.jsonl",
    ]
    for log, sentence in zip(refusals, words, strict=True):
        assert sentence in log.stderr
        assert "Traceback" not in log.stderr


def test_continue_takes_the_files_run(torchless: Kernel) -> None:
    """Without a run of its own the driver goes on with the file's; what was not run before runs now."""
    torchless.run(order(SOUND[0], asked_accelerator="H200"), ref=REF)
    log = torchless.run(order(SOUND[0]), "--continue", torchless.events_file.name)
    assert {(event.name.run, event.name.part) for event in log.events} == {(REF.run_id, 2)}
    assert log.end.counts == {"error": 1}
    plans = [event.body for event in log.events if isinstance(event.body, Plan)]
    assert [plan.ref for plan in plans] == [REF, REF]


def test_older_events_are_kept(kernel: Kernel) -> None:
    """A run in a folder that holds another run's events leaves those under another name."""
    first = kernel.run(order(SOUND[0], asked_accelerator="H200"))
    kernel.run(order(SOUND[1], asked_accelerator="H200"))
    older = [path.read_text() for path in kernel.folder.glob("ferry-events.*.jsonl")]
    assert "\n".join(first.lines) + "\n" in older


def test_run_without_an_id_makes_one_up(kernel: Kernel) -> None:
    """A kernel that was carried to a machine by hand has a run id of the usual form."""
    log = kernel.run(order(SOUND[0], asked_accelerator="H200"))
    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{6}", log.events[0].name.run)


@pytest.mark.parametrize(("fault", "code"), [("sound", 0), pytest.param("raises", 1, marks=pytest.mark.slow)])
def test_rehearsal_runs_one_tiny_case(kernel: Kernel, fault: str, code: int) -> None:
    """A rehearsal is one tiny case of the first case's kind on the CPU; its exit code says if it passed."""
    real = Case(SHAPES["s08"], route="eager", levers={"LEVER_FAULT": fault}, dtype="float16")
    before = kernel.events_file.exists() and kernel.events_file.read_text()
    log = kernel.run(order(real, *SOUND, asked_accelerator="H200"), "--rehearse")
    assert log.code == code, log.lines
    (done,) = log.done.values()
    assert done.case_id.startswith("t01-eager-float16-short-")
    assert (done.status == "passed") == (code == 0)
    assert (kernel.events_file.exists() and kernel.events_file.read_text()) == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--deadline", "soon"], "'soon' is no duration"),
        (["--run", "absent.json"], "cannot read absent.json"),
    ],
)
def test_wrong_usage_is_exit_2(kernel: Kernel, options: list[str], words: str) -> None:
    """What makes no sense on the command line is one sentence and exit code 2."""
    log = kernel.run(order(SOUND[0]), *options)
    assert (log.code, log.lines) == (2, [])
    assert words in log.stderr
