"""The commands that ask Kaggle, as people type them: exit code, words, journal; and what must not ask."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from builder import runs
from builder.errors import Exit
from tests.command import run_ferry
from tests.service.client import Client
from tests.service.kaggle.knobs import FORECAST_QUOTA, SLOTS, WEEKLY_QUOTA, Fault
from tests.service.kaggle.server import KaggleServer

PUSH = ("push", "--accelerator", "NvidiaTeslaT4", "--no-rehearsal", "--shapes", "1", "--route", "eager")

STALE_TOKEN = {"KAGGLE_API_TOKEN": "stale"}
GOOD_KEY = {"KAGGLE_USERNAME": "alice", "KAGGLE_KEY": "key-of-alice"}


def states() -> list[str]:
    """What the journal of the only run says, in order."""
    [run] = runs.all_runs()
    return [entry.state for entry in run.journal()]


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (SLOTS, Exit.CAPACITY, "--wait-for-slot"),
        (WEEKLY_QUOTA, Exit.CAPACITY, "ferry quota"),
        (FORECAST_QUOTA, Exit.CAPACITY, "--timeout"),
        ("Notebook not found", Exit.USAGE, "account"),
    ],
    ids=["slots", "weekly", "forecast", "other"],
)
def test_refusal(kaggle_environment: KaggleServer, words: str, code: Exit, hint: str) -> None:
    """A refused push says so, with its own exit code, and never appears as running."""
    kaggle_environment.knobs.refusal = words
    done = run_ferry(*PUSH)
    assert done.returncode == code
    assert words in done.stderr
    assert hint in done.stderr
    assert states() == ["intent", "refused"]
    assert kaggle_environment.sessions == []


def test_invalid(kaggle_environment: KaggleServer) -> None:
    """A kernel that was accepted without a source is taken back, and the push has failed."""
    kaggle_environment.knobs.invalid = {"invalidModelSources": ["a/b/c/d/1"]}
    done = run_ferry(*PUSH)
    assert done.returncode == Exit.USAGE
    assert "a/b/c/d/1" in done.stderr
    assert states() == ["intent", "refused"]
    assert kaggle_environment.sessions[0].wait() == "CANCEL_ACKNOWLEDGED"


def test_a_push_tells_of_a_stale_token(
    kaggle_environment: KaggleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The push goes on with the good key, and says which token was passed over and whose account pays."""
    kaggle_environment.knobs.hold = True
    for name, value in {**STALE_TOKEN, **GOOD_KEY}.items():
        monkeypatch.setenv(name, value)
    done = run_ferry(*PUSH)
    assert done.returncode == 0, done.stderr
    assert "the token in KAGGLE_API_TOKEN is no longer valid and is passed over" in done.stderr
    assert "as alice" in done.stderr
    assert kaggle_environment.calls("SaveKernel")[0].auth == "basic"


def test_a_push_that_is_denied_is_refused(kaggle_environment: KaggleServer) -> None:
    """403 to a push means that nothing was accepted."""
    kaggle_environment.knobs.faults = [Fault("SaveKernel", status=403, message="Permission was denied")]
    done = run_ferry(*PUSH)
    assert done.returncode == Exit.USAGE
    assert "Permission was denied" in done.stderr
    assert states() == ["intent", "refused"]


def test_fault_after_acceptance(kaggle_environment: KaggleServer) -> None:
    """A push whose answer is lost is found: one session, and the version is on disk."""
    kaggle_environment.knobs.hold = True
    kaggle_environment.knobs.faults = [Fault("SaveKernel", status=503, accepted=True)]
    done = run_ferry(*PUSH)
    assert done.returncode == 0, done.stderr
    [session] = kaggle_environment.sessions
    [run] = runs.all_runs()
    submission = run.submission(1)
    assert submission is not None
    assert submission.reference == f"{session.kernel.ref}/1"
    assert states() == ["intent", "queued"]


def test_source_of_a_push(kaggle_environment: KaggleServer) -> None:
    """What is sent is what stands in the run's folder, and what its metadata says."""
    kaggle_environment.knobs.hold = True
    done = run_ferry(*PUSH, "--internet", "--as", "script", "--timeout", "9m")
    assert done.returncode == 0, done.stderr
    [run] = runs.all_runs()
    sent = kaggle_environment.calls("SaveKernel")[0].body
    about = json.loads((run.part(1) / "kernel-metadata.json").read_text())
    assert sent["text"] == (run.part(1) / "kernel.py").read_text(encoding="utf-8")
    assert sent["newTitle"] == about["title"] == f"ferry-{run.id}-1"
    assert sent["machineShape"] == about["machine_shape"] == "NvidiaTeslaT4"
    assert (
        (sent["enableGpu"], sent["enableTpu"]) == (about["enable_gpu"], about["enable_tpu"]) == (True, False)
    )
    assert sent["enableInternet"] is about["enable_internet"] is True
    assert sent["sessionTimeoutSeconds"] == 540


@pytest.mark.parametrize("form", ["script", "notebook"])
def test_the_real_client_would_send_the_same(
    kaggle_environment: KaggleServer, form: str, tmp_path: Path
) -> None:
    """The run's folder, pushed by Kaggle's own client, makes the request that ferry has made of it."""
    kaggle_environment.knobs.hold = True
    done = run_ferry(*PUSH, "--as", form, "--timeout", "9m")
    assert done.returncode == 0, done.stderr
    [run] = runs.all_runs()
    client = Client.of(kaggle_environment, tmp_path / "home")
    client("kernels", "push", "-p", run.part(1), "--accelerator", "NvidiaTeslaT4", "--timeout", "540")
    ours, theirs = (request.body for request in kaggle_environment.calls("SaveKernel"))
    assert ours.pop("slug") == f"alice/{theirs.pop('slug')}"
    if form == "notebook":  # the client writes the JSON anew
        ours["text"], theirs["text"] = json.loads(ours["text"]), json.loads(theirs["text"])
    assert ours == theirs


@pytest.mark.parametrize("name", ["nvidiaTeslaT4", "NvidiaTeslaT4x2", "NvidiaTeslaP100", "gpu_t4x2"])
def test_a_wrong_accelerator_is_refused_before_any_network(
    kaggle_environment: KaggleServer, name: str
) -> None:
    """A misspelt or retired name costs no request, and the good one is named."""
    done = run_ferry("push", "--accelerator", name)
    assert done.returncode == Exit.USAGE
    assert "NvidiaTeslaT4" in done.stderr
    assert kaggle_environment.requests == []
    assert runs.all_runs() == []


def test_what_needs_no_network_uses_none(kaggle_environment: KaggleServer, tmp_path: Path) -> None:
    """Help, completion, build, lists and parse ask nobody, also with a credential at hand."""
    log = tmp_path / "a.log"
    log.write_text("nothing of ours\n")
    commands: list[tuple[str, ...]] = [
        ("--help",),
        ("push", "--help"),
        ("quota", "--help"),
        ("completion", "bash"),
        ("accelerators",),
        ("backends",),
        ("build", "--accelerator", "NvidiaTeslaT4", "-o", str(tmp_path / "kernel")),
        ("parse", str(log)),
        ("ls",),
    ]
    for command in commands:
        done = run_ferry(*command, cwd=tmp_path)
        assert "Traceback" not in done.stderr, command
    assert kaggle_environment.requests == []


def test_quota(kaggle_environment: KaggleServer) -> None:
    """Used, left and until when, for people and for programs."""
    kaggle_environment.knobs.gpu_used_s = 5400
    assert re.search(
        r"alice +GPU: 1\.50 of 30\.00 h used, 28\.50 h left, until 20", run_ferry("quota").stderr
    )
    document = json.loads(run_ferry("quota", "--json").stdout)
    assert document["account"] == "alice"
    assert document["quota"][0]["left_s"] == 102_600


def test_quota_without_used(kaggle_environment: KaggleServer) -> None:
    """A quota that does not say what was used is no crash."""
    kaggle_environment.knobs.quota_without_used = True
    done = run_ferry("quota")
    assert done.returncode == 0
    assert "GPU: 0.00 of 30.00 h used" in done.stderr


def test_quota_with_a_wrong_key(kaggle_environment: KaggleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A credential that is not accepted is no matter of trying again: exit 2, and which one it is."""
    monkeypatch.delenv("KAGGLE_API_TOKEN")
    for name, value in (GOOD_KEY | {"KAGGLE_KEY": "wrong"}).items():
        monkeypatch.setenv(name, value)
    done = run_ferry("quota")
    assert done.returncode == Exit.USAGE
    assert "is not accepted: make a new token" in done.stderr and "KAGGLE_KEY" in done.stderr


def test_quota_of_a_place_that_counts_nothing() -> None:
    """Locally there is none."""
    assert "nothing is counted on local" in run_ferry("quota", "--backend", "local").stderr


def test_quota_without_a_service(kaggle_environment: KaggleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that cannot be reached is one sentence with its host."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    done = run_ferry("quota")
    assert done.returncode == Exit.INFRASTRUCTURE
    assert "the proxy did not lead to localhost" in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor(kaggle_environment: KaggleServer) -> None:
    """A sound set-up has no fault, and the account is named."""
    done = run_ferry("doctor", "--backend", "kaggle")
    assert done.returncode == 0, done.stderr
    assert "kaggle: account: alice, by the token in KAGGLE_API_TOKEN" in done.stderr
    assert "kaggle: clock: within" in done.stderr


def test_doctor_finds_a_stale_token(
    kaggle_environment: KaggleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stale token beside a good key is a fault that the push survives and the doctor explains."""
    for name, value in {**STALE_TOKEN, **GOOD_KEY}.items():
        monkeypatch.setenv(name, value)
    done = run_ferry("doctor")
    assert done.returncode == 3
    assert "ok     kaggle: account: alice, by the key in KAGGLE_KEY" in done.stderr
    assert "WRONG  kaggle: credential: the token in KAGGLE_API_TOKEN is no longer valid" in done.stderr


def test_doctor_without_a_service(kaggle_environment: KaggleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offline, the other checks go on and the fault is told."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    done = run_ferry("doctor", "--json")
    checks = {(check["place"], check["what"]): check for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == 3
    assert checks["kaggle", "account"]["is_fault"]
    assert not checks["ferry", "versions"]["is_fault"]


@pytest.mark.parametrize("command", [("quota",), PUSH, ("doctor",)])
def test_no_command_shows_a_secret(kaggle_environment: KaggleServer, command: tuple[str, ...]) -> None:
    """Whatever the service answers, the credential is in no output."""
    kaggle_environment.knobs.faults = [
        Fault("*", status=400, message="bad Authorization: Bearer token-of-alice", times=None)
    ]
    done = run_ferry(*command)
    assert done.returncode != 0
    assert "token-of-alice" not in done.stdout + done.stderr
    for path in runs.runs_root().rglob("*"):
        assert not path.is_file() or b"token-of-alice" not in path.read_bytes()
