"""Slurm's backend without Slurm: words, requests, the job's script."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from builder.backends import State
from builder.backends.slurm import words
from builder.backends.slurm.cluster import Job, refuse
from builder.backends.slurm.profile import Profile
from builder.backends.slurm.script import job_script
from builder.commands import Answer
from builder.errors import CapacityError, DeniedError, RefusedHereError, RefusedThereError
from harness.driver import parse_arguments, read_earlier
from harness.events import Order, Terms

FOR_EVER = (
    "DependencyNeverSatisfied",
    "PartitionConfig",
    "PartitionTimeLimit",
    "AssocGrpGRES",
    "AssocGrpCPUMinutesLimit",
    "ReqNodeNotAvail, UnavailableNodes:n1",
)


@pytest.mark.parametrize("reason", FOR_EVER)
def test_what_will_never_start_is_held(reason: str) -> None:
    """A reason that does not go away by itself is a state of its own, and stands in its message."""
    status = words.pending("PENDING", reason)
    assert status.state is State.HELD
    assert reason in status.message


@pytest.mark.parametrize(
    ("word", "reason", "state", "message"),
    [
        ("PENDING", "Priority", State.QUEUED, "Priority"),
        ("PENDING", "BeginTime", State.QUEUED, "BeginTime"),
        ("RUNNING", "None", State.RUNNING, ""),
        ("SUSPENDED", "None", State.RUNNING, "SUSPENDED"),
        ("REQUEUE_HOLD", "None", State.HELD, "REQUEUE_HOLD"),
        ("PONDERING", "None", State.UNKNOWN, "Slurm calls it PONDERING, which is unknown here"),
    ],
)
def test_what_goes_on_is_in_the_table(word: str, reason: str, state: State, message: str) -> None:
    """Each of Slurm's words for a job that is not over has its state here; a new one is unknown."""
    status = words.pending(word, reason)
    assert (status.state, status.message) == (state, message)


@pytest.mark.parametrize(
    ("word", "reason", "code", "state", "said"),
    [
        ("FAILED", "JobLaunchFailure", "0:9", State.FAILED, "killed by signal 9 (SIGKILL)"),
        ("FAILED", "JobLaunchFailure", "0:53", State.FAILED, "could not write into the job's folder"),
        ("FAILED", "NonZeroExitCode", "5:0", State.FAILED, "ended with status 5"),
        ("TIMEOUT", "TimeLimit", "0:15", State.FAILED, "time limit"),
        ("OUT_OF_MEMORY", "OutOfMemory", "0:125", State.FAILED, "more memory"),
        ("NODE_FAIL", "NodeDown", "0:0", State.FAILED, "its node failed"),
        ("CANCELLED", "", "0:0", State.CANCELLED, "cancelled"),
        ("COMPLETED", "None", "0:0", State.UNKNOWN, "its result is not to be seen"),
    ],
)
def test_ends_are_explained(word: str, reason: str, code: str, state: State, said: str) -> None:
    """An end without a result is never a success, and Slurm's misleading reasons are not passed on."""
    status = words.ended(word, reason, code)
    assert status.state is state
    assert said in status.message
    assert "JobLaunchFailure" not in status.message


@pytest.mark.parametrize(
    ("profile", "accelerator", "asked"),
    [
        (Profile(), "h200", ["--gres=gpu:h200:1"]),
        (Profile(), "any", ["--gres=gpu:1"]),
        (Profile(), "cpu", []),
        (Profile(types={"T4": "tesla_t4"}), "t4", ["--gres=gpu:tesla_t4:1"]),
        (Profile(types={"t4": "tesla_t4"}), "any", ["--gres=gpu:tesla_t4:1"]),
        (
            Profile(gpu_request="--gpus={n} --constraint={type}", gpus=4),
            "a100",
            ["--gpus=4", "--constraint=a100"],
        ),
        (Profile(gpu_request="--gpus={n} --constraint={type}"), "any", ["--gpus=1"]),
        (Profile(gpu_request=""), "t4", []),
    ],
)
def test_gpus_are_asked_for_as_the_profile_says(profile: Profile, accelerator: str, asked: list[str]) -> None:
    """The request is a template: a type that is not known leaves its part out."""
    assert profile.request(accelerator) == asked


def test_a_request_that_cannot_be_made_is_refused() -> None:
    """An accelerator without a type, a template with a strange field and a folder in quotes are named."""
    with pytest.raises(RefusedHereError, match="no GPU type for accelerator 'a100'") as caught:
        Profile(types={"t4": "t4", "h200": "h200"}).request("a100")
    assert "t4, h200" in caught.value.hint
    with pytest.raises(RefusedHereError, match="'card' is not known"):
        Profile(gpu_request="--gres={card}").request("t4")
    with pytest.raises(RefusedHereError, match="no name of a folder"):
        Profile(scratch='a"b').folder()


def test_a_job_asks_for_its_own_time_and_is_not_requeued() -> None:
    """The limit is the kernel's and two minutes more; the profile's own options come last and win."""
    profile = Profile(partition="gpu", account="lab", qos="short", extra=("--mem=8G",))
    asked = profile.job("t4", 2, 600.0)
    assert asked[:4] == ["--no-requeue", "--nodes=1", "--ntasks=1", "--time=12"]
    assert asked[4:] == ["--gres=gpu:t4:2", "--partition=gpu", "--account=lab", "--qos=short", "--mem=8G"]


def test_the_script_holds_every_kernel_byte_for_byte(tmp_path: Path) -> None:
    """Each element of an array gets its own text, whatever stands in it, and what is alike travels once."""
    shared = "".join(f"x{number} = '$HOME `date` \\\\ é \\r'\n" for number in range(2000))
    kernels = [f"{shared}NUMBER = {number}\n{shared}print('$1')\n" for number in range(3)]
    slugs = [f"ferry-r-{number}" for number in range(3)]
    script = job_script(Profile(python="cat <"), slugs, kernels)
    assert len(script) < 1.1 * len(kernels[0].encode())
    for number, (slug, kernel) in enumerate(zip(slugs, kernels, strict=True)):
        (tmp_path / slug).mkdir()
        environment = {"PATH": "/usr/bin:/bin", "SLURM_SUBMIT_DIR": str(tmp_path), "SLURM_JOB_ID": "7"}
        environment |= {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": str(number)}
        subprocess.run(["bash"], input=script, check=True, env=environment)
        assert (tmp_path / slug / "1" / "log").read_bytes() == kernel.encode()
        assert (tmp_path / slug / "id").read_text() == f"7_{number}\n"


def test_a_script_that_slurm_would_not_take_is_refused_here() -> None:
    """What is too long is said with its size, where Slurm speaks of a path."""
    with pytest.raises(RefusedHereError, match="3,6"):
        job_script(Profile(), ["ferry-r-1"], ["#" * 3_600_000])


@pytest.mark.parametrize(
    ("complaint", "error"),
    [
        ("Batch job submission failed: Invalid partition name specified", RefusedThereError),
        ("Batch job submission failed: Job violates accounting/QOS policy (job submit limit)", CapacityError),
    ],
)
def test_a_no_of_sbatch_is_told_in_its_words(complaint: str, error: type[Exception]) -> None:
    """A limit that passes is no refusal of the job itself."""
    with pytest.raises(error, match=complaint.rpartition(": ")[2][:12]):
        refuse(Answer(1, b"", f"sbatch: error: {complaint}\n".encode()))


@pytest.mark.parametrize("reference", ["12:/a/b c", "12_3:/a", "12_3;big:/a"])
def test_a_reference_is_read_as_it_was_written(reference: str) -> None:
    """Id, place in an array, cluster and folder come back; anything else is none of ours."""
    assert Job.of(reference).reference == reference
    with pytest.raises(DeniedError):
        Job.of(reference.replace(":", "-"))


def test_an_attempt_is_numbered_by_whoever_starts_it(tmp_path: Path) -> None:
    """A job that is begun anew has the number that its scheduler counts, with or without earlier events."""
    options = parse_arguments(["ORDER.json", "--attempt", "3"])
    assert read_earlier(options, Order(Terms("", "", ""), ())).attempt == 3
