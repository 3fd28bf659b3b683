"""Cases whose baseline cannot exist on their card, through all three processes, on a card of 4 MiB."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.simulated import VARIABLE
from tests.kernel.driving import Kernel, Log, case, order, unpack

LONG = case("sound", "c14")
HALF = case("sound", "c14", dtype="float16")
WRONG = case("wrong_when_long", "c14")
WIDE = case("sound", "c13")  # its batch has no room at once, its sequences have
STRICT = case("sound", "c14", protocol="strict")
ENDLESS = case("sound", "s14")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """One run of all the cases on a simulated card of 4 MiB."""
    base = tmp_path_factory.mktemp("oracle")
    hardware = base / "hardware.json"
    hardware.write_text(json.dumps({"cards": [{"index": 0, "name": "Small", "memory_mib": 4}]}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(Path(hardware)))
        kernel: Kernel = unpack(base)
        return kernel.run(order(LONG, HALF, STRICT, WRONG, WIDE, ENDLESS, asked_accelerator="any"))


@pytest.mark.parametrize("asked", [LONG, HALF], ids=["float32", "float16"])
def test_the_oracle_stands_in_for_the_baseline(log: Log, asked: object) -> None:
    """The oracle gates the whole output, the baseline a shorter one, and only the candidate is timed."""
    case_ = LONG if asked is LONG else HALF
    done = log.done[case_.id]
    assert done.status == "passed", done.error
    assert done.gate is not None
    assert (done.gate.reference, done.gate.coverage, done.gate.input_seeds) == ("oracle", 1.0, (1234,))
    assert done.gate.total_elements == 2 * 512 * 128
    assert len(done.gate.worst_index) == 3
    assert done.flags["oracle_sequences"] == "2 of 2"
    assert 100 < int(done.flags["truncated_s"]) < 512
    assert float(done.flags["truncated_share"]) < 1
    assert "not timed" in done.flags["baseline"]
    assert ("dtype_share" in done.flags) is (asked is HALF)
    assert {part.side for part in log.samples(case_)} == {"candidate"}


def test_a_wrong_output_fails_by_the_oracle_too(log: Log) -> None:
    """An element that is wrong only where no baseline reaches is found and placed."""
    done = log.done[WRONG.id]
    assert (done.status, done.error_kind) == ("failed_gate", "gate")
    assert done.gate is not None and done.gate.failed_elements == 1
    assert (done.gate.worst_index, done.gate.failed_dims) == ((1, 511, 127), (127,))
    assert done.gate.worst_output - done.gate.worst_reference == pytest.approx(1, abs=1e-4)
    assert float(done.flags["truncated_share"]) < 1
    assert not log.samples(WRONG)


def test_a_batch_that_has_no_room_is_gated_in_parts(log: Log) -> None:
    """Where single sequences fit, the baseline is the reference of the whole batch, and is not timed."""
    done = log.done[WIDE.id]
    assert done.status == "passed", done.error
    assert done.gate is not None
    assert (done.gate.reference, done.gate.coverage) == ("baseline", 1.0)
    assert len(done.gate.input_seeds) == 5
    assert {part.side for part in log.samples(WIDE)} == {"candidate"}


def test_what_has_no_room_for_its_input_is_infeasible(log: Log) -> None:
    """The bytes are stated."""
    done = log.done[ENDLESS.id]
    assert done.status == "infeasible"
    assert "input and output need 52428800000 bytes at this size, the device has 4194304" in done.error


def test_strict_timing_goes_without_a_baseline_too(log: Log) -> None:
    """Outputs of timed calls are held against the oracle; there is no baseline before or beside it."""
    done = log.done[STRICT.id]
    assert done.status == "passed", done.error
    assert int(done.flags["timed_checked"]) >= 1
    assert {part.side for part in log.samples(STRICT)} == {"candidate"}
