"""The first check: what is right, what is wrong with what came, and who is asked about it."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from builder.results import Row
from harness.cards import Card
from harness.events import Device, Order, Terms, to_plain
from harness.hardware import examine, has_code
from harness.limits import Limits
from harness.senses import TorchView, answers, asked
from harness.shapes import SHAPES, Case
from harness.simulated import VARIABLE, Answers, NoHardwareError, Simulated, simulated_hardware

CU128 = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
T4, T4B = (Device(index, "Tesla T4", "7.5", 15360, "550.54") for index in (0, 1))
P100 = Device(0, "Tesla P100-PCIE-16GB", "6.0", 16384, "550.54")
TWO_T4 = Answers((T4, T4B), "2.9.0+cu128", "12.8", CU128)
TERMS = Terms("bundle", "harness", "model", asked_accelerator="Tesla T4", asked_count=2)
CASES = (Case(SHAPES["t01"]),)


def found(said: Answers, terms: Terms = TERMS, cases: Sequence[Case] = CASES) -> tuple[list[str], str]:
    """The names of the cards to work on, and the finding."""
    machine = examine(Order(terms, tuple(cases)), Simulated(said), online=False)
    return [card.name for card in machine.cards], machine.record.finding


@pytest.mark.parametrize(
    ("arches", "capability", "runs"),
    [
        (CU128, "7.5", True),
        (CU128, "6.0", False),
        (CU128, "8.9", True),
        (CU128, "7.0", False),
        (("sm_80", "compute_80"), "9.0", True),
        (("sm_80", "compute_80"), "7.5", False),
        (("sm_80",), "9.0", False),
        (("sm_86",), "8.0", False),
        (("sm_90a",), "9.0", True),
        (("sm_100a", "compute_100a"), "10.3", False),
        (("sm_100f",), "10.3", True),
        (("sm_100f",), "12.0", False),
        (("compute_100f",), "12.0", False),
        (("gfx90a",), "9.0", True),
        ((), "7.5", True),
    ],
)
def test_what_code_runs_where(arches: tuple[str, ...], capability: str, runs: bool) -> None:
    """Cubins run on later minor versions, PTX on all later ones; what is no CUDA name tells nothing."""
    assert has_code(arches, capability) is runs


def test_right_hardware_is_used() -> None:
    """Both cards that were asked for are there and work: both are used, and nothing is to be said."""
    assert found(TWO_T4) == (["simulated Tesla T4"] * 2, "")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (replace(TWO_T4, cards=(P100,)), "got 1 × simulated Tesla P100-PCIE-16GB (6.0)"),
        (replace(TWO_T4, cards=(T4,)), "asked for 2 × Tesla T4, got 1 × simulated Tesla T4 (7.5)"),
        (
            Answers(torch="2.9.0+cpu", problem="CUDA: no"),
            "got no GPU (nvidia-smi lists none, torch 2.9.0+cpu",
        ),
        (
            replace(TWO_T4, arches=("sm_80",)),
            "torch 2.9.0+cu128 has no code for its capability 7.5 (only sm_80)",
        ),
        (replace(TWO_T4, problem="CUDA: no"), "and torch 2.9.0+cu128 cannot use it: CUDA: no"),
    ],
)
def test_what_is_wrong_is_said_as_asked_and_got(said: Answers, words: str) -> None:
    """Another card, too few, none, one without code and one that does not work each have their sentence."""
    _, finding = found(said)
    assert finding.startswith("asked for 2 × Tesla T4, got ")
    assert words in finding


def test_one_of_two_is_enough_for_one_device() -> None:
    """Who wants to use one card only is served by one; and of two it takes the first."""
    one = replace(TERMS, devices=1)
    assert found(replace(TWO_T4, cards=(T4,)), one) == found(TWO_T4, one) == (["simulated Tesla T4"], "")


def test_capability_can_be_asked_for() -> None:
    """A card of the right name and another capability is wrong."""
    assert found(TWO_T4, replace(TERMS, asked_capability="7.5"))[1] == ""
    finding = found(TWO_T4, replace(TERMS, asked_capability="8.0"))[1]
    assert finding.startswith("asked for 2 × Tesla T4 of capability 8.0, got 2 × simulated Tesla T4 (7.5)")


def test_card_that_only_torch_sees_is_no_cpu() -> None:
    """Without nvidia-smi torch's word counts: the card is used, also when nothing was asked for."""
    said = replace(TWO_T4, nvidia_smi=False)
    assert found(said) == found(said, replace(TERMS, asked_accelerator="")) == found(TWO_T4)


def test_card_without_code_is_no_cpu_when_nothing_was_asked_for() -> None:
    """A GPU that torch cannot use stops a run that asked for nothing; asked for, the CPU is used."""
    said = replace(TWO_T4, cards=(P100,))
    anything = Terms("bundle", "harness", "model")
    assert "has no code for its capability 6.0" in found(said, anything)[1]
    (name,), finding = found(said, replace(anything, asked_accelerator="cpu"))
    assert name.startswith("simulated cpu ")
    assert finding == ""


def test_mismatch_with_leave_runs_on_what_works() -> None:
    """With leave to differ another card is used if it works, and the CPU if it does not."""
    leave = replace(TERMS, allow_mismatch=True)
    works = replace(TWO_T4, cards=(P100,), arches=("sm_60",))
    machine = examine(Order(leave, CASES), Simulated(works), online=False)
    assert [(card.name, card.mismatch) for card in machine.cards] == [
        (
            "simulated Tesla P100-PCIE-16GB",
            "asked for 2 × Tesla T4, got 1 × simulated Tesla P100-PCIE-16GB (6.0)",
        )
    ]
    (name,), finding = found(replace(works, arches=CU128), leave)
    assert name.startswith("simulated cpu ")
    assert "has no code" in finding


def test_probe_tells_of_every_card_and_asks_torch_anyway() -> None:
    """A probe has torch's versions also when the card is the wrong one, and tries the internet if it may."""
    said = replace(TWO_T4, cards=(P100,), internet=True)
    record = examine(Order(TERMS, ()), Simulated(said), online=True).record
    assert (record.torch, record.cuda, record.arches, record.internet) == ("2.9.0+cu128", "12.8", CU128, True)
    assert [(card.capability, card.memory_mib, card.driver) for card in record.cards] == [
        ("6.0", 16384, "550.54")
    ]
    assert record.ram_mib > 100
    assert record.cpus >= 1
    assert examine(Order(TERMS, ()), Simulated(said), online=False).record.internet is None


def test_simulated_rows_are_known_as_such() -> None:
    """Every device of a simulation, the CPU too, has a name by which a row is known to measure nothing."""
    fields = dict.fromkeys(Row.__match_args__, "")
    names = [*found(TWO_T4)[0], *found(TWO_T4, Terms("", "", "", asked_accelerator="cpu"))[0]]
    rows = [Row(**{**fields, "device": name}) for name in (*names, "Tesla T4", "")]  # type: ignore[arg-type]
    assert [row.is_simulated for row in rows] == [True, True, True, False, False]


# --- who is asked -----------------------------------------------------------------------------------------


def program(text: str) -> list[str]:
    """A program in the place of the one that asks torch."""
    return [sys.executable, "-c", text]


def test_torchs_answer_is_found_behind_its_warnings() -> None:
    """Whatever torch prints before it, the answer is the last line that is one."""
    view = TorchView("2.9.0", "3.5", "12.8", CU128, (T4,), "no kernel image")
    text = f"print('warning'); print({json.dumps(to_plain(view))!r}); print('bye')"
    assert asked(program(text), {}, Limits(0)) == view


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("import os; os.abort()", "it ended with -6"),
        ("import sys; print('driver lost'); sys.exit(3)", "it ended with 3: driver lost"),
        ("import no_such_torch", ""),
    ],
)
def test_program_that_dies_is_a_finding_unless_torch_is_missing(text: str, problem: str) -> None:
    """A crash is a problem of the card's; a torch that cannot be imported is told by the first case."""
    assert asked(program(text), {}, Limits(0)) == TorchView(problem=problem)


def test_program_that_hangs_is_ended() -> None:
    """A driver that hangs costs the deadline and no more, and a stopped run does not wait for it."""
    hang = program("import time; time.sleep(600)")
    assert asked(hang, {}, Limits(0), deadline_s=0.5).problem == "no answer within 0.5 s"
    stopped = Limits(0)
    stopped.stop()
    began = time.monotonic()
    asked(hang, {}, stopped)
    assert time.monotonic() - began < 30


def test_internet_is_tried_once_and_briefly() -> None:
    """A host that takes the connection answers; a closed port, or a name that is none, does not."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert answers("127.0.0.1", port)
    assert not answers("127.0.0.1", port)
    assert not answers("no-such-host.invalid", 443)


@pytest.mark.parametrize(("text", "words"), [(None, "cannot read"), ("[]", "describes no hardware")])
def test_file_that_describes_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, words: str
) -> None:
    """A name of no file, or of one that says something else, is an error and no hardware."""
    path = tmp_path / "hardware.json"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv(VARIABLE, str(path))
    with pytest.raises(NoHardwareError, match=words):
        simulated_hardware()


def test_without_the_variable_the_machine_answers() -> None:
    """Nothing is simulated unless the environment says so."""
    assert simulated_hardware() is None
    assert not Card(0, "Tesla T4", 1).simulated
