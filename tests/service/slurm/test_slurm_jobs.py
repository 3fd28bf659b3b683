"""What can become of a job, each with the real daemons."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from builder.backends import State, Status, Submission
from builder.errors import DeniedError, InfrastructureError, RefusedHereError, RefusedThereError
from tests.service.slurm.conftest import Jobs, until

pytestmark = pytest.mark.cluster

SLEEPER = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"
POLITE = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("told to stop", flush=True), sys.exit(0)))
print("up", flush=True)
time.sleep(600)
"""
CARDS = "import os\nprint('cards', os.environ.get('CUDA_VISIBLE_DEVICES', 'none'))\n"
KILLS_ITS_SCRIPT = "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n"
ATTEMPTS = """
import pathlib, sys, time
print("begun with", sys.argv[1:], flush=True)
if "--attempt" not in sys.argv:
    pathlib.Path("ferry-events.jsonl").write_text("what was done\\n")
    for _ in range(600):
        print("first attempt", flush=True)
        time.sleep(0.1)
print("carries on", pathlib.Path(sys.argv[-1]).read_text().strip())
"""


@pytest.fixture(autouse=True)
def _begun_early(overdue: Submission) -> None:
    """What takes a minute by itself is under way from the first test on."""


# --- requests and refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accelerator", "devices", "seen"),
    [("t4", 0, "0"), ("t4", 2, "0,1"), ("any", 1, "0"), ("cpu", 0, "none")],
)
def test_a_job_gets_the_gpus_it_asks_for(jobs: Jobs, accelerator: str, devices: int, seen: str) -> None:
    """As many cards as were asked for are visible to the kernel, and without GPUs none are."""
    submission = jobs.submit(CARDS, accelerator=accelerator, devices=devices)
    assert jobs.over(submission) == Status(State.DONE)
    found = jobs.log(submission).strip().removeprefix("cards ")
    assert len(found.split(",")) == len(seen.split(","))
    assert (found == "none") == (seen == "none")


def test_an_impossible_request_is_refused_at_once(jobs: Jobs) -> None:
    """More cards than a node has, and a partition that there is none of, are refused in Slurm's words."""
    with pytest.raises(RefusedThereError, match="node configuration is not available"):
        jobs.submit(CARDS, accelerator="t4", devices=3)
    with pytest.raises(RefusedThereError, match="Invalid partition"):
        jobs.submit(CARDS, "--partition=nowhere")


@pytest.mark.parametrize("megabytes", [1, 3])
def test_a_long_script_is_taken(jobs: Jobs, megabytes: int) -> None:
    """Kernels of megabytes, some of it in one line, arrive whole."""
    size = megabytes * 1_000_000
    submission = jobs.submit(f"text = '{'x' * size}'\nprint(len(text))\n")
    assert jobs.over(submission) == Status(State.DONE)
    assert jobs.log(submission) == f"{size}\n"


def test_a_script_that_is_too_long_is_refused_here(jobs: Jobs) -> None:
    """What Slurm would refuse with words about a path never gets there."""
    with pytest.raises(RefusedHereError, match="Slurm takes at most"):
        jobs.submit(f"text = '{'x' * 5_000_000}'\n")


def test_more_time_than_the_partition_has_is_held(jobs: Jobs) -> None:
    """Slurm accepts such a job and lets it wait for ever: it is held, with the reason."""
    submission = jobs.submit(SLEEPER, "--partition=short", timeout_s=99 * 3600.0)
    assert "the partition" in jobs.until(submission, State.HELD).message
    jobs.place().stop(submission)
    assert jobs.over(submission).state is State.CANCELLED


def test_a_dependency_that_failed_is_held_or_cancelled(jobs: Jobs) -> None:
    """A job that waits for one that failed is held, or cancelled if it asked for that."""
    failed = jobs.submit("raise SystemExit(3)")
    assert jobs.over(failed).state is State.FAILED
    after = f"--dependency=afterok:{failed.reference.partition(':')[0]}"
    waiting = jobs.submit(SLEEPER, after)
    killed = jobs.submit(SLEEPER, after, "--kill-on-invalid-dep=yes")
    assert "DependencyNeverSatisfied" in jobs.until(waiting, State.HELD).message
    assert jobs.over(killed).state is State.CANCELLED
    jobs.place().stop(waiting)
    assert jobs.over(waiting).state is State.CANCELLED


# --- ends -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [5, 70])
def test_a_kernel_that_fails_is_failed_with_its_status(jobs: Jobs, code: int) -> None:
    """The kernel's own exit status stands in the message."""
    status = jobs.over(jobs.submit(f"raise SystemExit({code})"))
    assert status.state is State.FAILED
    assert f"the kernel ended with status {code} on n" in status.message


def test_a_killed_script_says_so(jobs: Jobs) -> None:
    """Slurm calls it a failure of the launch; the message names the signal."""
    status = jobs.over(jobs.submit(KILLS_ITS_SCRIPT))
    assert status == Status(State.FAILED, "it was killed by signal 9 (SIGKILL)")


def test_a_job_without_enough_memory_says_so(jobs: Jobs) -> None:
    """Slurm kills what takes more than its job has, and the message says what to ask for."""
    status = jobs.over(jobs.submit("import time\nx = b'1' * 600_000_000\ntime.sleep(60)", "--mem=50"))
    assert status.state is State.FAILED
    assert "more memory than its job has" in status.message


def test_an_unwritable_output_says_so(jobs: Jobs) -> None:
    """A job that could not open its output failed without a trace; the message says what to look at."""
    submission = jobs.submit(CARDS, "--output=/proc/none/out")
    status = jobs.over(submission)
    assert status.state is State.FAILED
    assert "could not write into the job's folder" in status.message
    with pytest.raises(DeniedError, match="no log"):
        jobs.log(submission)


def test_stop_lets_the_kernel_close(jobs: Jobs) -> None:
    """A running job that is stopped is cancelled, and its kernel was told before."""
    submission = jobs.submit(POLITE)
    until(lambda: "up" in b"".join(news(jobs, submission)).decode())
    jobs.place().stop(submission)
    assert jobs.over(submission).state is State.CANCELLED
    assert "told to stop" in jobs.log(submission)


def news(jobs: Jobs, submission: Submission) -> list[bytes]:
    """What has come of a log by now."""
    try:
        return [jobs.log(submission).encode()]
    except InfrastructureError:
        return []


def test_somebody_else_may_cancel_a_job(jobs: Jobs) -> None:
    """A job that was cancelled behind ferry's back is cancelled, not lost."""
    submission = jobs.submit(POLITE)
    until(lambda: bool(news(jobs, submission)))
    jobs.cluster.runner().run(["scancel", submission.reference.partition(":")[0]], timeout_s=30)
    assert jobs.over(submission).state is State.CANCELLED


def test_what_slurm_does_not_know_is_denied(jobs: Jobs) -> None:
    """Stopping an unknown job is an error, though scancel is silent; its state is unknown."""
    folder = jobs.cluster.home / "nobody's job"
    jobs.cluster.runner().run(["mkdir", "-p", str(folder)], timeout_s=30)
    stranger = Submission("slurm:test", f"99999:{folder}", "ferry-stranger")
    with pytest.raises(DeniedError, match="no job 99999"):
        jobs.place().stop(stranger)
    (folder / "stopped").unlink()
    status = jobs.status(stranger)
    assert status.state is State.UNKNOWN
    assert "knows nothing of job 99999" in status.message


# --- arrays -----------------------------------------------------------------------------------------------


def test_a_sweep_is_one_array_with_a_throttle(jobs: Jobs) -> None:
    """Parts submitted together are elements of arrays no larger than the cluster allows, few at a time."""
    place = jobs.place(throttle=2)
    program = "import time\nbegan = time.time()\ntime.sleep(1)\nprint({number}, began, time.time())\n"
    intents = [jobs.intent(program.format(number=number)) for number in range(7)]
    submissions = place.submit_all(intents)
    ids = [submission.reference.partition(":")[0] for submission in submissions]
    assert [job.partition("_")[2] for job in ids] == ["0", "1", "2", "3", "4", "0", "1"]  # MaxArraySize is 5
    assert [place.find(intent) for intent in intents] == submissions
    until(lambda: all(status.state is State.DONE for status in place.status(submissions)))
    said = [jobs.log(submission).split() for submission in submissions]
    assert [words[0] for words in said] == [str(number) for number in range(7)]
    spans = [(float(words[1]), float(words[2])) for words in said[:5]]
    assert max(sum(begin <= moment < end for begin, end in spans) for moment, _ in spans) == 2


def test_elements_that_never_began_are_cancelled(jobs: Jobs) -> None:
    """Elements of an array that had not begun vanish from the queue, whoever cancels them: none is lost."""
    place = jobs.place(throttle=1)
    submissions = place.submit_all([jobs.intent(SLEEPER) for _ in range(3)])
    until(lambda: place.status(submissions)[0].state is State.RUNNING)
    place.stop(submissions[2])
    until(lambda: place.status(submissions)[2].state is State.CANCELLED)
    jobs.cluster.runner().run(["scancel", submissions[0].reference.partition("_")[0]], timeout_s=30)
    until(lambda: all(status.state is State.CANCELLED for status in place.status(submissions)))


# --- daemons that die -------------------------------------------------------------------------------------


def test_a_dead_controller_costs_no_job(jobs: Jobs) -> None:
    """While the controller is gone each call ends with an error in time; afterwards the job is as it was."""
    program = "import time\nprint('up', flush=True)\ntime.sleep(3)\n"
    submission = jobs.submit(program)
    until(lambda: bool(news(jobs, submission)))
    jobs.cluster.kill("slurmctld")
    try:
        began = time.monotonic()
        with pytest.raises(InfrastructureError, match="controller does not answer"):
            jobs.status(submission)
        assert time.monotonic() - began < 45
        assert "up" in jobs.log(submission)
    finally:
        jobs.cluster.launch_controller()
    assert jobs.over(submission) == Status(State.DONE)


def test_a_requeued_job_goes_on_as_its_next_attempt(jobs: Jobs) -> None:
    """A requeue begins the job anew, and it carries on with what the first attempt had written."""
    submission = jobs.submit(ATTEMPTS, "--requeue")
    until(lambda: "first attempt" in "".join(block.decode() for block in news(jobs, submission)))
    jobs.scontrol("requeue", submission.reference.partition(":")[0])
    assert jobs.over(submission, 120.0) == Status(State.DONE)
    log = jobs.log(submission)
    assert "begun with ['--attempt', '2', '--continue', '../earlier.jsonl']" in log
    assert "carries on what was done" in log


def test_a_lost_node_fails_a_job_or_begins_it_anew(jobs: Jobs) -> None:
    """A killed slurmd fails its job, or requeues it; the orphan's output stays in its own attempt."""
    fails = jobs.submit(SLEEPER, "--nodelist=n2")
    anew = jobs.submit(ATTEMPTS, "--requeue", "--nodelist=n2")
    for submission in (fails, anew):
        until(lambda: bool(news(jobs, submission)))  # noqa: B023
    jobs.cluster.kill("n2")
    try:
        assert jobs.over(fails, 120.0) == Status(State.FAILED, "its node failed")
        assert jobs.status(anew).state is State.QUEUED
        first = jobs.folder(anew) / "1" / "log"
        size = first.stat().st_size
        until(lambda: first.stat().st_size > size)  # the orphan goes on
    finally:
        jobs.cluster.launch_node("n2")
    assert jobs.over(anew, 120.0) == Status(State.DONE)
    second = (jobs.folder(anew) / "2" / "log").read_text()
    assert "carries on what was done" in second
    assert "first attempt" not in second
    assert [file.name for file in jobs.place().list_outputs(anew)] == []


def test_following_ends_with_the_job(jobs: Jobs, tmp_path: Path) -> None:
    """The log's stream has all of what the fetched log has, and ends with the job."""
    submission = jobs.submit(
        "import time\nfor n in range(4):\n    print(n, flush=True)\n    time.sleep(0.5)\n"
    )
    followed = b"".join(jobs.place().follow_log(submission))
    assert followed == b"0\n1\n2\n3\n"
    assert jobs.log(submission).encode() == followed


def test_a_job_at_its_time_limit_is_failed(jobs: Jobs, overdue: Submission) -> None:
    """Slurm ends a job whose minute is up, and the message says that it was Slurm."""
    assert jobs.over(overdue, 150.0) == Status(State.FAILED, "Slurm ended it at its time limit")
