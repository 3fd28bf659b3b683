"""A kernel of ours on the service, carried there and back by the official client alone."""

import csv
import json
from pathlib import Path

from tests.command import run_ferry
from tests.service.client import Client
from tests.service.kaggle.hardware import TWO_T4
from tests.service.kaggle.server import KaggleServer

CASE = ("--suite", "smoke", "--shapes", "t01", "--route", "sdpa", "--accelerator", "t4")


def test_built_notebook_runs_on_simulated_cards(kaggle: KaggleServer, tmp_path: Path) -> None:
    """A built notebook, pushed by hand, finds two T4 and passes; the fetched log alone makes the row."""
    folder, out = tmp_path / "kernel", tmp_path / "out"
    built = run_ferry("build", *CASE, "--backend", "manual", "-o", str(folder))
    assert built.returncode == 0, built.stderr
    file = folder / "kernel-metadata.json"
    about = json.loads(file.read_text("utf-8")) | {"id": "alice/ferry-by-hand", "title": "ferry by hand"}
    file.write_text(json.dumps(about), "utf-8")
    kaggle.knobs.hardware = TWO_T4
    client = Client.of(kaggle, tmp_path / "home")
    pushed = client("kernels", "push", "-p", folder, "--accelerator", "NvidiaTeslaT4")
    assert "version 1 successfully" in pushed.stdout, pushed.stderr
    assert kaggle.sessions[0].wait(150) == "COMPLETE"
    client("kernels", "output", "alice/ferry-by-hand/1", "-p", out)
    parsed = run_ferry("parse", str(out / "ferry-by-hand.log"), "-o", str(tmp_path / "rows.csv"))
    assert parsed.returncode == 0, parsed.stderr
    (row,) = csv.DictReader((tmp_path / "rows.csv").read_text("utf-8").splitlines())
    assert (row["status"], row["device"], row["asked_accelerator"]) == ("passed", "simulated Tesla T4", "t4")
    events = (out / "ferry-events.jsonl").read_text("utf-8").splitlines()
    assert [line for line in kaggle.sessions[0].log.text("text").splitlines() if line in events] == events
