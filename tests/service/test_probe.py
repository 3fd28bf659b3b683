"""`ferry probe` against the service: what is told, kept and exited with, whatever hardware comes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from builder import runs
from tests.service.ferrying import ferry
from tests.service.kaggle.hardware import NOTHING, ONE_T4, P100, TWO_T4
from tests.service.kaggle.server import KaggleServer

PROBE = ("probe", "--accelerator", "NvidiaTeslaT4")


def test_right_hardware(hurried: KaggleServer) -> None:
    """What came is printed, line by line, and kept per account and accelerator with its date."""
    hurried.knobs.hardware = TWO_T4
    done = ferry(*PROBE)
    assert done.code == 0, done.err
    told = dict(
        line.split(maxsplit=1) for line in done.err.splitlines() if line[:1].isalpha() and " " in line
    )
    assert told["device"] == "simulated Tesla T4"
    assert (told["count"], told["memory"], told["capability"]) == ("2", "15,360 MiB", "7.5")
    assert {"driver", "CUDA", "torch", "Python", "CPUs", "disk", "internet"} <= {*told}
    kept = Path(done.err.splitlines()[-1])
    assert kept.name == "kaggle-alice-NvidiaTeslaT4.json"
    assert json.loads(kept.read_text())["at"].startswith("20")
    [request] = hurried.calls("SaveKernel")
    assert request.body["machineShape"] == "NvidiaTeslaT4"


@pytest.mark.parametrize(
    ("hardware", "said"),
    [(ONE_T4, "asked for 2"), (NOTHING, "got no GPU"), (P100, "P100")],
    ids=["one card", "no card", "no code for it"],
)
def test_wrong_hardware(hurried: KaggleServer, hardware: Mapping[str, object], said: str) -> None:
    """Anything else is exit 6 with what was asked for and what came; it is kept too."""
    hurried.knobs.hardware = hardware
    done = ferry(*PROBE, "--json")
    assert done.code == 6
    document = done.document
    assert (document["matches"], document["exit_code"]) == (False, 6)
    assert said in document["probe"]["hardware"]["finding"]
    assert json.loads(Path(document["files"][0]).read_text()) == document["probe"]


def test_a_probe_is_never_the_default_run(hurried: KaggleServer) -> None:
    """A probe that nobody has waited for is pulled by its name alone."""
    hurried.knobs.hold = True
    assert ferry(*PROBE, "--wait", "1m").code == 124
    [run] = runs.all_runs()
    assert not run.is_finished and run.is_probe
    assert ferry("pull").code == 2


@pytest.mark.parametrize(("hardware", "code"), [(TWO_T4, 0), (P100, 6)], ids=["right", "wrong"])
def test_a_probe_is_pulled_later(hurried: KaggleServer, hardware: Mapping[str, object], code: int) -> None:
    """A pull tells what a probe has found, as the probe itself does, and keeps it."""
    hurried.knobs.hold, hurried.knobs.hardware = True, hardware
    assert ferry(*PROBE, "--wait", "1m").code == 124
    [run] = runs.all_runs()
    hurried.knobs.hold = False
    done = ferry("pull", run.id)
    assert done.code == code
    assert "capability" in done.err and "the plan of no case" not in done.err
    assert ("it is what was asked for" if code == 0 else "not what was asked for") in done.err
    assert Path(done.err.splitlines()[-1]).name == "kaggle-alice-NvidiaTeslaT4.json"


def test_a_probe_that_dies_is_told(hurried: KaggleServer) -> None:
    """A probe that has reported nothing is exit 4, and shows no device."""
    hurried.knobs.stand_in = "raise SystemExit(1)"
    done = ferry(*PROBE)
    assert done.code == 4
    assert "is failed and has reported nothing" in done.err


def test_a_probe_of_this_machine() -> None:
    """Without an account the same looks are taken here."""
    done = ferry("probe", "--json")
    assert done.code == 0, done.out
    assert done.document["probe"]["hardware"]["cpus"] > 0
    assert done.document["files"][0].endswith("local.json")
