"""Who runs where: fresh and shared workers, their environment, their chatter, somebody else's harness."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.chatter import HEAD_BYTES, TAIL_BYTES
from tests.kernel.driving import Kernel, Log, case, kernel, order, unpack

__all__ = ["kernel"]

SHARED = [case("tells_all", shape) for shape in ("t01", "t02")]
FRESH = [case("tells_all", shape, protocol="official") for shape in ("t01", "t02")]
NAMED = case("tells_all", "t01", route="sdpa")
TALKERS = {fault: case(fault) for fault in ("floods", "forges_events")}


@pytest.fixture(scope="module")
def log(kernel: Kernel) -> Log:
    """One run on one CPU station."""
    (kernel.folder / "torch.py").write_text("raise ImportError('a file that is only called torch')")
    return kernel.run(order(*SHARED, *FRESH, NAMED, *TALKERS.values(), seeds=2))


def note(log: Log, index: int) -> dict[str, Any]:
    """What the worker of a case saw."""
    case_id = [*SHARED, *FRESH, NAMED][index].id
    assert log.done[case_id].status == "passed", log.done[case_id].error
    seen: dict[str, Any] = json.loads(log.done[case_id].route_note)
    return seen


def test_worker_serves_cases_of_one_setting(log: Log) -> None:
    """Consecutive cases of one route and lever setting have one worker, in a process group of its own."""
    assert note(log, 0)["pid"] == note(log, 1)["pid"]
    assert note(log, 0)["group"] == note(log, 0)["pid"]


def test_official_cases_have_fresh_workers(log: Log) -> None:
    """Under the official protocol no two cases share a process, but they share the compile caches."""
    assert len({note(log, index)["pid"] for index in (1, 2, 3)}) == 3
    assert note(log, 2)["TORCHINDUCTOR_CACHE_DIR"] == note(log, 3)["TORCHINDUCTOR_CACHE_DIR"]


def test_worker_has_this_cases_levers_only(log: Log) -> None:
    """Levers that are no part of the case are gone; a route by name is one, `auto` is none."""
    levers = [{name for name in note(log, index) if name.startswith("LEVER_")} for index in (0, 4)]
    assert levers == [{"LEVER_FAULT"}, {"LEVER_FAULT", "LEVER_ROUTE"}]
    assert note(log, 4)["LEVER_ROUTE"] == "sdpa"


def test_worker_has_its_share_of_the_machine(log: Log) -> None:
    """On a CPU no GPU is in sight, idle threads sleep, and all cores are one worker's."""
    seen = note(log, 0)
    assert (seen["CUDA_VISIBLE_DEVICES"], seen["OMP_WAIT_POLICY"]) == ("", "PASSIVE")
    assert str(seen["threads"]) == seen["OMP_NUM_THREADS"] == log.done[SHARED[0].id].flags["threads"]


def test_worker_runs_in_the_working_folder(kernel: Kernel, log: Log) -> None:
    """The worker's folder is the kernel's, its stdin is empty, and nothing there replaces our modules."""
    seen = note(log, 0)
    assert (seen["folder"], seen["stdin"]) == (str(kernel.folder), "")
    assert Path(seen["harness"]).parent == kernel.root / "harness"


def test_all_weight_seeds_are_gated(log: Log) -> None:
    """Each weight seed has its own five inputs, and the figures cover all of them."""
    gate = log.done[SHARED[0].id].gate
    assert gate is not None
    assert gate.weight_seeds[0] == 1234
    assert len(gate.weight_seeds) == len(set(gate.weight_seeds)) == 2
    assert {*range(1234, 1239)} < set(gate.input_seeds)
    assert len(gate.input_seeds) == 10
    assert gate.total_elements == 10 * 2 * 16 * 32


def test_flood_is_cut_in_the_middle(log: Log) -> None:
    """Of megabytes of output the head and the tail are kept, and a line says how much is missing."""
    assert log.done[TALKERS["floods"].id].status == "passed"
    begin = log.lines.index("cpu| the first line of the flood")
    flood = log.lines[
        begin : next(
            i for i, line in enumerate(log.lines) if TALKERS["floods"].id in line and '"case"' in line
        )
    ]
    missing = [line for line in flood if "bytes of output left out" in line]
    size = sum(len(line.encode()) for line in flood)
    assert len(missing) == 1
    assert int(missing[0].split()[2]) > 5_000_000 - HEAD_BYTES - TAIL_BYTES
    assert size < 1.6 * (HEAD_BYTES + TAIL_BYTES)
    tail = flood[flood.index(missing[0]) :]
    assert "cpu| from a child process" in tail
    assert "cpu| the last line of the flood" in tail
    assert "cpu| no line end" in tail


def test_forged_events_do_not_decode(log: Log) -> None:
    """What a candidate prints in the driver's voice is chatter, no event, and its case is lost."""
    assert log.done[TALKERS["forges_events"].id].status == "disqualified"
    assert {event.name.run for event in log.events} == {log.events[0].name.run}
    lies = [line for line in log.chatter if "forged" in line]
    assert len(lies) >= 5
    assert all(line.startswith("cpu| ") for line in log.chatter)


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """One run with a harness of somebody's own, whose comparison ends the judge for a batch of two."""
    kernel = unpack(tmp_path_factory.mktemp("foreign"))
    script = kernel.root / "torch_transformer_benchmark.py"
    script.write_text(
        script.read_text().replace('if __name__ == "__main__":', "if False:")
        + "\n\n_compare = compare_outputs\n"
        "def compare_outputs(reference, *args):\n"
        "    if len(reference) == 2:\n"
        "        import os\n"
        "        os._exit(9)\n"
        "    return _compare(reference, *args)._replace(max_abs_error=0.125)\n"
        "def parse_args():\n"
        "    return argparse.Namespace(rtol=0.01, atol=0.001, seed=5)\n"
        "def benchmark_once(model, x, valid_mask, iterations, device):\n"
        "    return [1.5] * iterations\n"
    )
    return kernel.run(order(case("sound", "t01"), case("sound"), own_harness=True))


def test_somebody_elses_harness_gates_and_times(foreign: Log) -> None:
    """With a harness of somebody's own, its comparison and its timer are what is used."""
    done = foreign.done[case("sound").id]
    assert done.gate is not None, done.error
    assert (done.status, done.gate.max_abs) == ("passed", 0.125)
    assert (done.gate.rtol, done.gate.atol) == (0.01, 0.001)
    assert done.flags["tolerances"] == "rtol 0.01 atol 0.001"
    assert {ns for part in foreign.samples(case("sound")) for ns in part.values} == {1_500_000}


def test_dead_judge_costs_one_case(foreign: Log) -> None:
    """A judge that dies costs the case, which says so, and the next case has a new one."""
    done = foreign.done[case("sound", "t01").id]
    assert (done.status, done.error_kind) == ("error", "judge:exit 9")
    assert done.error == "the judge left with exit code 9"


def test_seeds_and_settings_reach_both_processes(kernel: Kernel) -> None:
    """The harness' own arguments reach worker and judge: other seed, fewer trials, a gate of zero width."""
    base = case("sound", harness_args=("--seed", "7", "--accuracy-trials", "2"))
    strict = replace(
        case("wrong_dtype"),
        dtype="float16",
        harness_args=("--atol", "0", "--rtol", "0", "--input-scale", "3"),
    )
    log = kernel.run(order(base, strict))
    gates = [log.done[asked.id].gate for asked in (base, strict)]
    assert gates[0] is not None and gates[1] is not None
    assert (gates[0].weight_seeds, gates[0].input_seeds) == ((7,), (7, 8))
    assert gates[0].max_abs == gates[1].max_abs == 0.0
    assert [log.done[asked.id].status for asked in (base, strict)] == ["passed", "passed"]
