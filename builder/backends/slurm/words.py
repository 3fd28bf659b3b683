"""Slurm's words for states and reasons, and what they mean here: the one table of both."""

from __future__ import annotations

import re
import signal

from builder.backends import State, Status

# https://slurm.schedmd.com/squeue.html#SECTION_JOB-STATE-CODES, and the flags that newer versions show
STATES = {
    "PENDING": State.QUEUED,
    "CONFIGURING": State.QUEUED,
    "REQUEUED": State.QUEUED,
    "POWER_UP_NODE": State.QUEUED,
    "REQUEUE_HOLD": State.HELD,
    "RESV_DEL_HOLD": State.HELD,
    "SPECIAL_EXIT": State.HELD,
    "RUNNING": State.RUNNING,
    "COMPLETING": State.RUNNING,
    "EXPEDITING": State.RUNNING,
    "RESIZING": State.RUNNING,
    "SIGNALING": State.RUNNING,
    "STAGE_OUT": State.RUNNING,
    "STOPPED": State.RUNNING,
    "SUSPENDED": State.RUNNING,
    "UPDATE_DB": State.RUNNING,
    "COMPLETED": State.DONE,
    "CANCELLED": State.CANCELLED,
    "REVOKED": State.CANCELLED,
    "BOOT_FAIL": State.FAILED,
    "DEADLINE": State.FAILED,
    "FAILED": State.FAILED,
    "LAUNCH_FAILED": State.FAILED,
    "NODE_FAIL": State.FAILED,
    "OUT_OF_MEMORY": State.FAILED,
    "PREEMPTED": State.FAILED,
    "RECONFIG_FAIL": State.FAILED,
    "TIMEOUT": State.FAILED,
}

# Why a pending job goes on pending until somebody does something; each matches a reason's beginning.
HELD = {
    "AccountNotAllowed": "the account may not use the partition",
    "AccountingPolicy": "an accounting limit is reached",
    "Assoc": "a limit of the account is reached",
    "BadConstraints": "no node can satisfy the request",
    "BurstBuffer": "its burst buffer cannot be had",
    "DependencyNeverSatisfied": "what it depends on can never come true any more",
    "FedJobLock": "its federation holds it",
    "InvalidAccount": "the account is not valid",
    "InvalidQOS": "the QOS is not valid",
    "JobHeldAdmin": "an administrator holds it",
    "JobHeldUser": "its user holds it: scontrol release",
    "JobHoldMaxRequeue": "it was requeued too often",
    "MaxMemPerLimit": "it asks for more memory than it may",
    "Nodes required for job are DOWN": "the nodes that it needs are down, drained or reserved",
    "PartitionConfig": "the partition does not allow what it asks for",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition is inactive",
    "PartitionNodeLimit": "it asks for more nodes than the partition allows",
    "PartitionTimeLimit": "it asks for more time than the partition allows",
    "QOSGrp": "a limit of the QOS is reached",
    "QOSMaxCpuMinutesPerJob": "it asks for more than the QOS allows",
    "QOSMaxWallDurationPerJob": "it asks for more time than the QOS allows",
    "QOSMinGRES": "it asks for fewer GPUs than the QOS wants",
    "QOSNotAllowed": "the QOS may not use the partition",
    "QOSTimeLimit": "the QOS has used up its time",
    "ReqNodeNotAvail": "the nodes that it needs are down, drained or reserved",
    "ReservationDeleted": "its reservation is gone",
    "TimeLimit": "it asks for more time than it may",
    "launch failed requeued held": "it could not be started, and is held since",
}

# What to say of an end that the script could write nothing about.
_ENDS = {
    "TIMEOUT": "Slurm ended it at its time limit",
    "OUT_OF_MEMORY": "it used more memory than its job has; ask for more: extra = ['--mem=…'] in its profile",
    "NODE_FAIL": "its node failed",
    "BOOT_FAIL": "its node did not boot",
    "PREEMPTED": "another job took its place",
    "DEADLINE": "its deadline passed",
    "CANCELLED": "it was cancelled",
}
_NO_OUTPUT = "0:53"
_MEMORY = re.compile(r"memory limit|oom.?kill|out.of.memory", re.IGNORECASE)


def pending(word: str, reason: str) -> Status:
    """Return the status of a job that is not over, in Slurm's `word` for its state and its reason."""
    state = STATES.get(word, State.UNKNOWN)
    if state is State.UNKNOWN:
        return Status(state, f"Slurm calls it {word}, which is unknown here")
    why = reason if reason not in ("", "None") else ""
    if state is State.QUEUED:
        meaning = next((text for key, text in HELD.items() if why.startswith(key)), "")
        return Status(State.HELD, f"{meaning} ({why})") if meaning else Status(state, why)
    if state is State.HELD:
        return Status(state, f"{word}: {why}" if why else word)
    return Status(state, "" if word in ("RUNNING", "COMPLETING") else word)


def ended(word: str, reason: str = "", exit_code: str = "", said: str = "") -> Status:
    """Return the status of a job that is over and has left no result of its own.

    `exit_code` is Slurm's `STATUS:SIGNAL`, `said` what its node has written about the job. Success is never
    inferred: such a job is not done.
    """
    state = STATES.get(word, State.UNKNOWN)
    if state is State.DONE:
        return Status(State.UNKNOWN, "Slurm calls it COMPLETED, and its result is not to be seen")
    if state is State.UNKNOWN:
        return Status(state, f"Slurm calls it {word}, which is unknown here")
    if state is State.FAILED and _MEMORY.search(said):  # a node without control groups just kills it
        word = "OUT_OF_MEMORY"
    return Status(state, _ENDS.get(word) or _by_exit_code(word, reason, exit_code))


def _by_exit_code(word: str, reason: str, exit_code: str) -> str:
    """Say how a job failed: Slurm's own reason, JobLaunchFailure, misleads where a signal ended it."""
    found = re.fullmatch(r"(\d+):(\d+)", exit_code)
    if exit_code == _NO_OUTPUT:
        return "its node could not write into the job's folder: see scratch in its profile"
    if found and int(found[2]):
        return f"it was killed by {_signal(int(found[2]))}"
    if found and int(found[1]):
        return f"the job's script ended with status {found[1]} and left no result"
    return f"{word} ({reason})" if reason not in ("", "None") else word


def _signal(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
