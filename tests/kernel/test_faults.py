"""A candidate that goes wrong costs its own case, whatever it does, and the row says what it did."""

import pytest

from harness.events import CaseDone
from tests.kernel.driving import Kernel, Log, case, kernel, order

__all__ = ["kernel"]  # a fixture

# fault -> status, kind of error, and words that the row must have
FAULTS = {
    "raises": ("error", "HeadlessError", "without_heads"),
    "raises_late": ("error", "ArithmeticError", "too many calls"),
    "import_error": ("error", "ModuleNotFoundError", "a_package_that_nobody_has"),
    "out_of_memory": ("oom", "RuntimeError", "DefaultCPUAllocator"),
    "memory_error": ("oom", "MemoryError", "bytearray"),
    "segfaults": ("error", "SIGSEGV", "the worker was ended by SIGSEGV"),
    "is_killed": ("error", "SIGKILL", "the worker was ended by SIGKILL"),
    "exits_hard": ("error", "exit 3", "left with exit code 3"),
    "exits_softly": ("error", "SystemExit", "sys.exit(0)"),
    "hangs": ("timeout", "timeout", "longer than its 25 s"),
    "leaves_a_child": ("error", "exit 4", "left with exit code 4"),
    "wrong_shape": ("error", "wrong_shape", "(8, 16, 31), not (8, 16, 32)"),
    "no_tensor": ("error", "not_a_tensor", "returned list, not a tensor"),
    "wrong_dtype": ("failed_gate", "wrong_dtype", "float16, not float32"),
    "one_nan": ("failed_gate", "gate", "1 of 20480 elements"),
}
SOUND = case("sound", route="eager")
LOST = case("other_route", route="sdpa")
NOTED = {fault: case(fault) for fault in ("same_output", "chunks", "changes_precision", "forks_and_returns")}


@pytest.fixture(scope="module")
def log(kernel: Kernel) -> Log:
    """One run over all faults on two CPU stations, with sound cases first, in between, and last."""
    faults = [case(fault) for fault in FAULTS]
    cases = [case(), *faults[:8], SOUND, *faults[8:], LOST, *NOTED.values(), case("sound", "t03")]
    return kernel.run(order(*cases, devices=2, case_timeout_s=25.0))


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_told(log: Log, fault: str) -> None:
    """Each fault has its status, its kind and its own words, and no samples."""
    status, kind, words = FAULTS[fault]
    done = log.done[case(fault).id]
    assert (done.status, done.error_kind) == (status, kind)
    assert words in done.error
    assert done.samples == 0
    assert log.samples(case(fault)) == []


def test_sound_cases_pass_among_faults(log: Log) -> None:
    """Cases before, between and after the faults pass, with all samples of both sides."""
    for sound in (case(), SOUND, case("sound", "t03")):
        assert log.done[sound.id].status == "passed"
        assert log.done[sound.id].samples == 8
        rounds = [(part.side, part.round, len(part.values)) for part in log.samples(sound)]
        sides = ["baseline", "candidate", "candidate", "baseline"]
        assert rounds == [(side, number // 2, 2) for number, side in enumerate(sides)]


def test_run_is_closed_with_counts(log: Log) -> None:
    """The driver leaves with 0 and its last event counts every case by status."""
    assert log.code == 0, log.stderr
    assert log.end.reason == "complete"
    assert log.end.counts == {"passed": 7, "error": 11, "failed_gate": 2, "oom": 2, "timeout": 1}


def test_traceback_is_the_candidates_own(log: Log) -> None:
    """The error begins in the candidate's world: no frame of the harness, original file and line."""
    error = log.done[case("raises").id].error
    assert "HeadlessError: there are no heads" in error
    assert 'faulty/raises.py", line 19' in error
    assert "harness/" not in error


def test_gate_counts_all_trials_and_keeps_the_worst(log: Log) -> None:
    """One nan in the fifth trial is one failed element of five trials, with infinite figures."""
    gate = log.done[case("one_nan").id].gate
    assert gate is not None
    assert (gate.failed_elements, gate.total_elements) == (1, 5 * 8 * 16 * 32)
    assert gate.max_abs == gate.gate_share == float("inf")
    assert gate.input_seeds == (1234, 1235, 1236, 1237, 1238)


def test_other_route_than_named_is_an_error(log: Log) -> None:
    """A route asked for by name that did not run is an error with the model's own reason."""
    done = log.done[LOST.id]
    assert (done.status, done.error_kind) == ("error", "route")
    assert done.error == "route sdpa was asked for by name, eager ran: no compiler here"
    assert (done.route_ran, done.route_note) == ("eager", "no compiler here")


def noted(log: Log, fault: str) -> CaseDone:
    """How a case ended that passes and has something to note."""
    done = log.done[NOTED[fault].id]
    assert done.status == "passed"
    return done


def test_kept_output_is_noted(log: Log) -> None:
    """Outputs in the same memory are noted, others are not."""
    assert noted(log, "same_output").aliases_output is True
    assert log.done[SOUND.id].aliases_output is False


def test_chunks_are_noted(log: Log) -> None:
    """Chunk size and difference are flags; compile time is what the model says."""
    done = noted(log, "chunks")
    assert {"chunk_rows": "3", "chunk_diff": "0.125"}.items() <= done.flags.items()
    assert done.compile_s == 0.25


def test_changed_precision_is_noted(log: Log) -> None:
    """A constructor that changes the global precision has a flag with both states."""
    assert noted(log, "changes_precision").flags["tf32_changed"].startswith("high/")
    assert " to highest/" in noted(log, "changes_precision").flags["tf32_changed"]
    assert "tf32_changed" not in log.done[SOUND.id].flags


def test_fork_that_returns_answers_once(log: Log) -> None:
    """A child that the candidate forked and let run on writes no second reply."""
    assert noted(log, "forks_and_returns").samples == 8


def test_first_call_and_memory_are_measured(log: Log) -> None:
    """A passed case has the time of its first call and the memory before the baseline ran."""
    done = log.done[SOUND.id]
    assert done.first_call_s is not None and 0 < done.first_call_s < 10
    assert done.peak_mem_mib is not None and 50 < done.peak_mem_mib < 5000


def test_two_workers_share_the_cores(log: Log) -> None:
    """With two stations each row says how many threads a worker had, and that idle threads sleep."""
    flags = log.done[SOUND.id].flags
    assert flags["wait_policy"] == "passive"
    assert int(flags["threads"]) >= 1
    assert log.kinds().count("Device") == 1


def test_nothing_is_left_running(kernel: Kernel, log: Log) -> None:
    """No process outlives the run, not even one that took a session of its own."""
    assert log.code == 0
    kernel.wait_until_alone()
    assert kernel.processes() == []


def test_numbers_have_no_gaps(log: Log) -> None:
    """The sequence numbers of an attempt are 1, 2, 3, …."""
    assert [event.name.seq for event in log.events] == list(range(1, len(log.events) + 1))


def test_file_holds_the_same_events(kernel: Kernel, log: Log) -> None:
    """The events file holds the events of stdout, byte for byte, and no chatter."""
    kept = kernel.events_file.read_text().splitlines()
    assert kept == [line for line in log.lines if line not in log.chatter]
