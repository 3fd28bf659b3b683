"""The loopback service itself: what it does with a push, and to whom it answers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from tests.command import ROOT
from tests.service.asking import BEARER, KERNEL, Asking
from tests.service.client import notebook_text
from tests.service.kaggle.hardware import TWO_T4
from tests.service.kaggle.knobs import OUT_OF_MEMORY, OUT_OF_TIME, Ending
from tests.service.kaggle.server import KaggleServer
from tests.service.kaggle.sessions import Session


def said(session: Session, stream: str = "stdout") -> str:
    """What a session's program wrote."""
    return "".join(record.data for record in session.log.records if record.stream_name == stream)


def lives(process: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has asked after does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_notebook_cells_run_in_order_in_one_process(ask: Asking) -> None:
    """A later cell sees an earlier one's names; what a cell evaluates to is in the log."""
    session = ask.run(_plain_notebook("a = 20", "print(a + 1)", "a * 2 + 2"), kernelType="notebook")
    assert (session.status, said(session)) == ("COMPLETE", "21\n42\n")
    assert said(session, "stderr").splitlines()[-1].startswith("[NbConvertApp] Writing")


def test_failing_cell_ends_the_notebook(ask: Asking) -> None:
    """After an exception no cell runs; the traceback is on stderr, the converter's lines follow it."""
    session = ask.run(_plain_notebook("1 / 0", "print('never')"), kernelType="notebook")
    assert (session.status, said(session)) == ("ERROR", "")
    words = said(session, "stderr")
    assert (
        0
        < words.index("PapermillExecutionError")
        < words.index("ZeroDivisionError")
        < words.index("NbConvertApp")
    )


def test_notebook_needs_a_kernel_name_and_joined_sources(ask: Asking) -> None:
    """Without a kernelspec papermill fails; sources that are lists of lines fail the push itself."""
    text = json.loads(_plain_notebook("1")) | {"metadata": {}}
    session = ask.run(json.dumps(text), kernelType="notebook")
    assert "No kernel name found in notebook" in said(session, "stderr")
    listed = ask.post(
        "SaveKernel", slug="alice/x", kernelType="notebook", language="python", text=notebook_text("1")
    )
    assert listed.status_code == 500


def test_program_finds_nothing_of_ours(ask: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program has its own home and working folder, no input, and none of the caller's variables."""
    monkeypatch.setenv("LEVER_SECRET", "1")
    source = (
        "import os, sys\n"
        "ours = [n for n in os.environ if n.startswith(('LEVER', 'KAGGLE', 'PYTHONPATH'))]\n"
        "print(os.getcwd(), ours)\n"
        "print(os.listdir(), os.listdir(os.environ['HOME']), repr(sys.stdin.read()))\n"
    )
    assert said(ask.run(source)) == "/kaggle/working ['KAGGLE_KERNEL_RUN_TYPE']\n[] [] ''\n"


def test_hardware_is_told_by_a_file(ask: Asking, kaggle: KaggleServer) -> None:
    """The knob's hardware stands in the file that FERRY_TEST_HARDWARE names."""
    kaggle.knobs.hardware = TWO_T4
    session = ask.run("import os; print(open(os.environ['FERRY_TEST_HARDWARE']).read())")
    assert json.loads(said(session)) == TWO_T4


def test_stand_in_is_executed_instead(ask: Asking, kaggle: KaggleServer) -> None:
    """A stand-in runs in the place of what was pushed, which is still what `GetKernel` returns."""
    kaggle.knobs.stand_in = "print('stand-in')"
    assert said(ask.run("print('pushed')")) == "stand-in\n"
    assert ask("GetKernel")["blob"]["source"] == "print('pushed')"


@pytest.mark.parametrize("as_error", [False, True])
def test_time_limit_kills_all_of_a_session(ask: Asking, kaggle: KaggleServer, as_error: bool) -> None:
    """At the limit even a child in its own group and without our mark is gone; files and log are kept."""
    kaggle.knobs.limit_ends_as = "ERROR" if as_error else "CANCEL_ACKNOWLEDGED"
    source = (
        "import subprocess, sys, time\n"
        "command = [sys.executable, '-c', 'import time; time.sleep(99)']\n"
        "child = subprocess.Popen(command, start_new_session=True, env={})\n"
        "open('kept', 'w').write('x')\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(99)\n"
    )
    session = ask.run(source, sessionTimeoutSeconds=1)
    assert (session.status, session.failure) == (kaggle.knobs.limit_ends_as, OUT_OF_TIME if as_error else "")
    assert session.outputs == {"kept": b"x"}
    assert not lives(int(said(session)))


def test_service_may_end_a_session(ask: Asking, kaggle: KaggleServer) -> None:
    """A session can die of its memory, with the service's message, and may keep no files."""
    kaggle.knobs.ending, kaggle.knobs.keeps_failed_outputs = Ending(0.2), False
    session = ask.run("import time; open('lost', 'w'); time.sleep(99)")
    assert ask("GetKernelSessionStatus") == {"status": "ERROR", "failureMessage": OUT_OF_MEMORY}
    assert session.outputs == {}


def test_wedged_session_runs_until_it_is_deleted(ask: Asking, kaggle: KaggleServer) -> None:
    """A wedged session says all it has to say and stays RUNNING; deletion ends it."""
    kaggle.knobs.wedged = True
    ask.push("print('done')")
    session = kaggle.sessions[0]
    seen = next(record for record in session.log.follow() if "results" in record.data)
    assert (seen.stream_name, session.status) == ("stderr", "RUNNING")
    ask("DeleteKernel")
    assert session.ended


def test_queue_and_places(ask: Asking, kaggle: KaggleServer) -> None:
    """A held session is queued and takes a place, which may linger after its end."""
    kaggle.knobs.hold, kaggle.knobs.gpu_slots, kaggle.knobs.slots_linger_s = True, 1, 60
    ask.push("", enableGpu=True)
    assert ask("GetKernelSessionStatus") == {"status": "QUEUED"}
    kaggle.knobs.hold = False
    kaggle.sessions[0].wait()
    assert ask.push("", enableGpu=True)["error"] == "Maximum batch GPU session count of 1 reached."
    kaggle.knobs.slots_linger_s = 0
    assert ask.push("", enableGpu=True)["versionNumber"] == 2
    assert ask.push("", kernelExecutionType="QUICK_SAVE")["versionNumber"] == 3


def test_kernels_of_others_are_out_of_reach(ask: Asking) -> None:
    """Nobody pushes to, or asks about, a kernel of somebody else; a title is used once."""
    ask.run()
    ask.http.headers["Authorization"] = "Bearer token-of-bobby"
    assert ask.push()["error"] == "Notebook not found"
    assert ask.post("GetKernelSessionStatus", **KERNEL).status_code == 403
    ask.http.headers["Authorization"] = BEARER["Authorization"]
    assert ask.post("SaveKernel", slug="alice/other", newTitle="some kernel").status_code == 409
    assert ask.post("SaveKernel", slug="alice/long", newTitle="t" * 51).status_code == 500
    assert ask.post("GetKernelSessionStatus", **KERNEL, versionLabel="1").status_code == 404


def test_expired_token_is_refused(ask: Asking, kaggle: KaggleServer) -> None:
    """A token that has expired is inactive and gets 401, a key still works."""
    kaggle.knobs.tokens_expired = True
    assert ask.post("ListKernels").json() == {"code": 401, "message": "Unauthenticated"}
    url = f"{kaggle.address}/api/v1/security.OAuthService/IntrospectToken"
    assert ask.http.post(url, json={"token": "token-of-alice"}, timeout=10).json() == {"active": False}
    del ask.http.headers["Authorization"]
    ask.http.auth = ("alice", "key-of-alice")
    assert ask.post("ListKernels").json() == {"kernels": []}


def test_the_way_to_the_real_service_is_shut(kaggle: KaggleServer) -> None:
    """A client that means the real service is refused here, on record, before it says anything."""
    with pytest.raises(requests.exceptions.ProxyError):
        requests.get("https://api.kaggle.com/v1/x", proxies={"https": kaggle.address}, timeout=10)
    assert [(request.call, request.target) for request in kaggle.requests] == [
        ("connect", "api.kaggle.com:443")
    ]


def test_service_starts_by_hand() -> None:
    """`python -m tests.service.kaggle` prints what to set, serves, and ends on a signal."""
    command = [sys.executable, "-m", "tests.service.kaggle", "--knob", "gpu_used_s=7200"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        lines = [service.stdout.readline() for _ in range(5)]
        exported = dict(line.removeprefix("export ").strip().split("=", 1) for line in lines[1:])
        url = exported["HTTP_PROXY"] + "/v1/kernels.KernelsApiService/GetAcceleratorQuotaStatistics"
        answer = requests.post(url, json={}, headers=BEARER, timeout=10).json()
        service.send_signal(signal.SIGINT)
        assert service.wait(20) == 0
    assert answer["gpuQuota"]["timeUsed"] == "7200s"


def _plain_notebook(*sources: str) -> str:
    """A notebook as the client sends it: each source one text."""
    notebook = json.loads(notebook_text(*sources))
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
    return json.dumps(notebook)
