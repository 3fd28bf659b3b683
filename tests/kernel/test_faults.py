"""A candidate that goes wrong costs its own case, whatever it does, and the row says what it did."""

import re

import pytest

from tests.kernel.driving import Kernel, Log, case, kernel, order, unpack

__all__ = ["kernel"]  # a fixture

# fault -> status, kind of error, and words that the row must have
FAULTS = {
    "raises": ("error", "HeadlessError", "without_heads"),
    "hangs": ("timeout", "timeout", "longer than its 25 s"),
    "import_error": ("error", "ModuleNotFoundError", "a_package_that_nobody_has"),
    "out_of_memory": ("oom", "RuntimeError", "DefaultCPUAllocator"),
    "memory_bomb": ("oom", "MemoryError", "MemoryError"),
    "segfaults": ("error", "SIGSEGV", "the worker was ended by SIGSEGV"),
    "leaves_a_child": ("error", "exit 4", "left with exit code 4"),
    "wrong_shape": ("error", "wrong_shape", "(8, 16, 31), not (8, 16, 32)"),
    "one_nan": ("failed_gate", "gate", "1 of 20480 elements"),
}
MORE_FAULTS = {
    "raises_late": ("error", "ArithmeticError", "too many calls"),
    "is_killed": ("error", "SIGKILL", "the worker was ended by SIGKILL"),
    "exits_hard": ("error", "exit 3", "left with exit code 3"),
    "exits_softly": ("error", "SystemExit", "sys.exit(0)"),
    "no_tensor": ("error", "not_a_tensor", "returned list, not a tensor"),
    "odd_signal": ("error", "signal 40", "the worker was ended by signal 40"),
    "answers_itself": ("error", "broken_channel", "is no message"),
    "never_ends_its_answer": ("error", "broken_channel", "a line without end"),
    "closes_its_files": ("error", "broken_channel", "the worker broke its channel: it is closed"),
}
SOUND = [case(), case("sound", route="eager"), case("sound", "t03")]
LOST = case("other_route", route="sdpa")
PECULIAR = case("peculiar")
HALF = case("wrong_dtype")
FORKING = case("forks_and_returns")
ASKING = case("asks_for_arguments")


@pytest.fixture(scope="module")
def log(kernel: Kernel) -> Log:
    """One run over many faults on two CPU stations, with sound cases first, in between, and last."""
    faults = [case(fault) for fault in FAULTS]
    cases = [SOUND[0], *faults[:5], SOUND[1], *faults[5:], LOST, PECULIAR, SOUND[2]]
    return kernel.run(order(*cases, devices=2, case_timeout_s=25.0))


@pytest.fixture(scope="module")
def more(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """One run over further faults."""
    cases = [*(case(fault) for fault in MORE_FAULTS), HALF, FORKING, ASKING]
    return unpack(tmp_path_factory.mktemp("more")).run(order(*cases))


def check_told(log: Log, fault: str, status: str, kind: str, words: str) -> None:
    """The fault's case has its status, its kind and its own words, and no samples."""
    done = log.done[case(fault).id]
    assert (done.status, done.error_kind) == (status, kind)
    assert words in done.error
    assert done.samples == 0
    assert log.samples(case(fault)) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_told(log: Log, fault: str) -> None:
    """Each fault costs its own case and says what it was."""
    check_told(log, fault, *FAULTS[fault])


@pytest.mark.slow
def test_another_dtype_is_gated_and_named(more: Log) -> None:
    """An output in float16 is judged as the contest judges it, and its row says so."""
    done = more.done[HALF.id]
    assert (done.status, done.flags["output_dtype"]) == ("passed", "float16")
    assert done.gate is not None and 0 < done.gate.max_abs < 0.002


@pytest.mark.slow
@pytest.mark.parametrize("fault", MORE_FAULTS)
def test_further_fault_is_told(more: Log, fault: str) -> None:
    """Each further fault costs its own case and says what it was."""
    check_told(more, fault, *MORE_FAULTS[fault])


def test_sound_cases_pass_among_faults(log: Log) -> None:
    """Cases before, between and after the faults pass, with all samples of both sides."""
    for sound in SOUND:
        assert log.done[sound.id].status == "passed"
        assert log.done[sound.id].samples == 8
        rounds = [(part.side, part.round, len(part.values)) for part in log.samples(sound)]
        sides = ["baseline", "candidate", "candidate", "baseline"]
        assert rounds == [(side, number // 2, 2) for number, side in enumerate(sides)]


def test_run_is_closed_with_counts(log: Log) -> None:
    """The driver leaves with 0 and its last event counts every case by status."""
    assert log.code == 0, log.stderr
    assert log.end.reason == "complete"
    assert log.end.counts == {"passed": 4, "error": 6, "failed_gate": 1, "oom": 2, "timeout": 1}


def test_traceback_is_the_candidates_own(log: Log) -> None:
    """The error begins in the candidate's world: no frame of the harness, original file and line."""
    error = log.done[case("raises").id].error
    assert "HeadlessError: there are no heads" in error
    assert 'faulty/raises.py", line 19' in error
    assert "harness/" not in error
    assert "faulty/__init__.py" in log.done[case("import_error").id].error.splitlines()[1]


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


def test_peculiarities_are_noted(log: Log) -> None:
    """Outputs in the same memory, chunks, compile time and a changed precision are in the row."""
    done = log.done[PECULIAR.id]
    assert (done.status, done.aliases_output, done.compile_s) == ("passed", True, 0.25)
    assert {"chunk_rows": "3", "chunk_diff": "0.125"}.items() <= done.flags.items()
    assert re.fullmatch("high/.* to highest/.*", done.flags["tf32_changed"])


def test_nothing_is_noted_without_need(log: Log) -> None:
    """A plain case has no flags but how it was run, and its outputs lie apart."""
    done = log.done[SOUND[1].id]
    assert done.aliases_output is False
    assert done.flags.keys() == {"threads", "wait_policy", "cores", "isolated"}


@pytest.mark.slow
def test_fork_that_returns_answers_once(more: Log) -> None:
    """A child that the candidate forked and let run on writes no second reply."""
    assert more.done[FORKING.id].status == "passed"
    assert more.done[FORKING.id].samples == 8


@pytest.mark.slow
def test_command_line_is_empty_for_a_model(more: Log) -> None:
    """A model that reads the command line at import finds none of ours there."""
    assert more.done[ASKING.id].status == "passed", more.done[ASKING.id].error


def test_first_call_and_memory_are_measured(log: Log) -> None:
    """A passed case has the time of its first call and the memory before the baseline ran."""
    done = log.done[SOUND[1].id]
    assert done.first_call_s is not None and 0 < done.first_call_s < 10
    assert done.peak_mem_mib is not None and 50 < done.peak_mem_mib < 5000


def test_two_workers_share_the_cores(log: Log) -> None:
    """With two stations each row says how many threads a worker had, and that idle threads sleep."""
    flags = log.done[SOUND[1].id].flags
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
