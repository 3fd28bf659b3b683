"""On a card, short cases of one setting share a worker unless somebody asks what the kernels were."""

import json

import pytest
import torch

from tests.kernel.driving import Kernel, Log, case, order, unpack

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
CASES = [case("tells_all", shape) for shape in ("t01", "t02")]


def pids(log: Log) -> list[int]:
    """The workers of the cases."""
    assert [log.done[asked.id].status for asked in CASES] == ["passed", "passed"], log.stderr
    return [json.loads(log.done[asked.id].route_note)["pid"] for asked in CASES]


@pytest.fixture
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Kernel:
    """A bundle of its own for each test."""
    return unpack(tmp_path_factory.mktemp("kernel"))


def test_short_cases_share_a_worker(kernel: Kernel) -> None:
    """Unasked no kernel is watched, the row says so, and what needs no profiler is told all the same."""
    log = kernel.run(order(*CASES, asked_accelerator="any", devices=1))
    first, second = pids(log)
    assert first == second
    flags = log.done[CASES[1].id].flags
    assert flags["profile"].startswith("none: the kernels of a short case")
    assert {"sdpa_eligible", "precision", "card_before", "other_processes"} <= flags.keys()
    assert "gpu_ms" not in flags


def test_profiled_cases_have_workers_of_their_own(kernel: Kernel) -> None:
    """A process that has watched its kernels serves no other case."""
    log = kernel.run(order(*CASES, asked_accelerator="any", devices=1, profile=True))
    first, second = pids(log)
    assert first != second
    assert "gpu_ms" in log.done[CASES[1].id].flags
