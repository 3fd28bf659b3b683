"""The whole demo, and its small service beside the one that the backend is tested with."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from builder.demo.loopback import FULL, TOKEN, USER, Loopback
from tests.command import ROOT, run_ferry
from tests.service.asking import Asking
from tests.service.kaggle.knobs import SLOTS

PUSH = {
    "slug": f"{USER}/some-kernel",
    "newTitle": "some kernel",
    "language": "python",
    "kernelType": "script",
}
NAMED = {"userName": USER, "kernelSlug": "some-kernel"}
Ask = Callable[[str, dict[str, Any]], Any]


@pytest.fixture
def demo_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where all temporary files of a demo go."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Loopback]:
    """The demo's service."""
    with Loopback(tmp_path / "service") as service:
        service.environment = dict(os.environ)
        yield service


def living(folder: Path) -> list[str]:
    """The command lines of processes that have to do with a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            told = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in told and process.name != str(os.getpid()):
            found.append((process / "cmdline").read_text("utf-8").replace("\0", " "))
    return found


def test_every_scene_comes_out_and_leaves_nothing(demo_folder: Path) -> None:
    """Five scenes, each with another exit code where ferry says no; no file, run or process is left."""
    done = run_ferry("demo", "--json", cwd=demo_folder)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(done.stdout)["rows"]
    codes = {row["scene"]: [(act["by"], act["exit_code"]) for act in row["acts"]][-1] for row in rows}
    assert codes == {
        "refused-push": ("ferry", 7),
        "wrong-gpu": ("ferry", 6),
        "stale-status": ("ferry", 0),
        "cached-output": ("ferry", 3),
        "noise": ("ferry", 8),
    }
    assert {act["exit_code"] for row in rows for act in row["acts"] if act["by"] == "usual"} == {0}
    stale = {act["command"]: act["said"] for row in rows for act in row["acts"] if "status" in act["command"]}
    assert "COMPLETE" in stale["kaggle kernels status you/train"]
    assert "queued" in stale["ferry status"]
    assert list(demo_folder.iterdir()) == []
    assert living(demo_folder) == []


def test_interrupted_demo_leaves_nothing(demo_folder: Path) -> None:
    """Ctrl-C while ferry's own local run is going on ends that run, too: exit 130, no file, no process."""
    command = [sys.executable, "-m", "builder", "demo", "cached-output"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        limit = time.monotonic() + 240
        while not list(demo_folder.glob("ferry-demo-*/runs/*/parts/1/local/started.json")):
            assert process.poll() is None
            assert time.monotonic() < limit
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in said
    assert list(demo_folder.iterdir()) == []
    assert living(demo_folder) == []


def test_both_services_answer_alike(small: Loopback, ask: Asking) -> None:
    """A refusal, a version, its status and log, and the status of the version before: one answer to each."""
    assert FULL == SLOTS
    knobs = ask.server.knobs
    knobs.stale_s, knobs.trailer, knobs.torn_every = 300, False, 0

    def refuse(words: str) -> None:
        small.refusal = knobs.refusal = words

    def hold(held: bool) -> None:
        small.is_busy = knobs.hold = held

    large = functools.partial(_as_alice, ask)
    assert _told(small.answer, refuse, hold) == _told(large, refuse, hold)
    assert small.answer("IntrospectToken", {"token": TOKEN}) == {"active": True, "username": USER}


def _told(ask: Ask, refuse: Callable[[str], None], hold: Callable[[bool], None]) -> list[Any]:
    """What a service answers, over two versions of a kernel."""
    hold(False)
    refuse(FULL)
    told = [_gist(ask("SaveKernel", {**PUSH, "text": ""}))]
    refuse("")
    told.append(_gist(ask("SaveKernel", {**PUSH, "text": "print('one')\nprint('<&>')\n"})))
    told.append([_ended(ask)])
    output = ask("ListKernelSessionOutput", {**NAMED, "versionLabel": "v1"})
    told.append([output["files"], *(record["data"] for record in json.loads(output["log"]))])
    hold(True)
    told.append(_gist(ask("SaveKernel", {**PUSH, "text": "print('two')\n"})))
    told += [[ask("GetKernelSessionStatus", {**NAMED, "versionLabel": label})] for label in ("", "v2")]
    return told


def _as_alice(ask: Asking, call: str, body: dict[str, Any]) -> Any:
    """Ask the larger service, whose account has another name."""
    words = {name: value.replace(USER, "alice") for name, value in body.items()}
    return json.loads(ask.post(call, **words).text.replace("alice", USER))


def _ended(ask: Ask) -> str:
    """The first version's last status."""
    limit = time.monotonic() + 60
    while True:
        word = str(ask("GetKernelSessionStatus", {**NAMED, "versionLabel": "v1"})["status"])
        if word not in ("QUEUED", "RUNNING"):
            return word
        assert time.monotonic() < limit
        time.sleep(0.02)


def _gist(answer: dict[str, Any]) -> list[Any]:
    """What a client reads of a push's answer."""
    return [answer["url"], answer["ref"], answer["versionNumber"], answer.get("error", "")]
