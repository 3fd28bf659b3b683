"""The loopback service's knobs about answers: each does what it says."""

from __future__ import annotations

import json

import pytest
import requests

from tests.service.asking import KERNEL, Asking
from tests.service.kaggle.knobs import Fault, Trouble, WordForm
from tests.service.kaggle.server import KaggleServer


@pytest.mark.parametrize(
    ("form", "word"),
    [
        ("upper", "CANCEL_ACKNOWLEDGED"),
        ("lower", "cancel_acknowledged"),
        ("camel", "cancelAcknowledged"),
        ("prefixed", "KERNEL_WORKER_STATUS_CANCEL_ACKNOWLEDGED"),
    ],
)
def test_status_words_come_in_four_forms(
    ask: Asking, kaggle: KaggleServer, form: WordForm, word: str
) -> None:
    """Each form of a status word that the official client understands can be had."""
    ask.run()
    kaggle.knobs.status_word, kaggle.knobs.status_form = "CANCEL_ACKNOWLEDGED", form
    assert ask("GetKernelSessionStatus")["status"] == word


def test_status_may_be_missing_unknown_or_unseen(ask: Asking, kaggle: KaggleServer) -> None:
    """A status can be absent or a new word, and a new kernel's can be 404 for a while."""
    ask.run()
    kaggle.knobs.status_word = ""
    assert ask("GetKernelSessionStatus") == {}
    kaggle.knobs.status_word = "PAUSED"
    assert ask("GetKernelSessionStatus")["status"] == "PAUSED"
    kaggle.knobs.unseen_s = 60
    assert ask.post("GetKernelSessionStatus", **KERNEL).status_code == 404
    assert len(ask("ListKernels")["kernels"]) == 1


def test_version_in_a_request_may_be_ignored(ask: Asking, kaggle: KaggleServer) -> None:
    """With versions not honoured, a request for the new one is answered for the one before."""
    ask.run("raise SystemExit(1)")
    ask.run("")
    assert ask("GetKernelSessionStatus", versionLabel="v2")["status"] == "COMPLETE"
    kaggle.knobs.honours_versions, kaggle.knobs.stale_s = False, 60
    assert ask("GetKernelSessionStatus", versionLabel="v2")["status"] == "ERROR"


@pytest.mark.parametrize("accepted", [False, True])
@pytest.mark.parametrize("trouble", ["error", "reset", "silence"])
def test_answer_may_be_lost_before_and_after_acceptance(
    ask: Asking, kaggle: KaggleServer, trouble: Trouble, accepted: bool
) -> None:
    """A push whose answer is lost stands if it was accepted first, and never was if not."""
    kaggle.knobs.faults = [Fault("SaveKernel", trouble, accepted=accepted)]
    ask.timeout = 0.5
    with pytest.raises((requests.exceptions.ConnectionError, requests.exceptions.Timeout, AssertionError)):
        ask.push()
    assert len(kaggle.sessions) == accepted


def test_answer_may_be_cut(ask: Asking, kaggle: KaggleServer) -> None:
    """A cut answer ends before its declared length, and what was asked for is done."""
    kaggle.knobs.faults = [Fault("SaveKernel", "cut")]
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        ask.push()
    assert len(kaggle.sessions) == 1


def test_faults_skip_and_count(ask: Asking, kaggle: KaggleServer) -> None:
    """A fault lets the first requests pass, hits as often as it says, and leaves other calls alone."""
    kaggle.knobs.faults = [Fault("ListKernels", status=429, shape="nested", retry_after="7", skip=1, times=2)]
    answers = [ask.post("ListKernels") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 429, 429, 200]
    assert answers[1].headers["Retry-After"] == "7"
    assert answers[1].json()["error"]["status"] == "RESOURCE_EXHAUSTED"


def test_lists_may_be_null(ask: Asking, kaggle: KaggleServer) -> None:
    """Every empty list can come as null."""
    kaggle.knobs.null_lists = True
    assert ask.push()["invalidModelSources"] is None


def test_log_may_be_empty_late_or_of_another_form(ask: Asking, kaggle: KaggleServer) -> None:
    """A log can be late, can stay away, and comes in each form that people have met."""
    ask.run("print('one')\nprint('two')\n")
    array = json.loads(ask("ListKernelSessionOutput")["log"])
    kaggle.knobs.log_form = "lines"
    assert [json.loads(line) for line in ask("ListKernelSessionOutput")["log"].splitlines()] == array
    kaggle.knobs.log_form = "text"
    assert ask("ListKernelSessionOutput")["log"].startswith("one\ntwo\n")
    kaggle.knobs.log_form = "cut array"
    with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
        json.loads(ask("ListKernelSessionOutput")["log"])
    kaggle.knobs.log_late_s = 60
    assert ask("ListKernelSessionOutput")["log"] == ""


def test_running_session_gives_nothing_but_its_stream(ask: Asking, kaggle: KaggleServer) -> None:
    """While a session runs its files and log are empty, and its stream speaks at once."""
    source = "import os, time\nprint('é', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\n"
    kaggle.knobs.stream_charset, kaggle.knobs.stream_noise = False, True
    ask.push(source)
    answer = ask.stream(versionLabel="v1")
    lines = answer.iter_lines()
    first = [next(lines).decode() for _ in range(4)]
    assert first[:3] == [": still here", "event: log", "id: 1"]
    assert json.loads(first[3].removeprefix("data: "))["data"] == "é\n"
    assert answer.headers["Content-Type"] == "text/event-stream"
    assert ask("ListKernelSessionOutput") == {"files": [], "log": ""}
    (kaggle.sessions[0].folder / "working" / "go").touch()
    assert [line for line in lines if line][-1] == b"data: END_OF_LOG"
    assert ask.stream().json()[0]["data"] == "é\n"


def test_stream_may_not_exist_or_not_replay(ask: Asking, kaggle: KaggleServer) -> None:
    """A stream can be 404; a cut one can go on where it was instead of beginning again."""
    kaggle.knobs.stream_cuts, kaggle.knobs.stream_replays, kaggle.knobs.torn_every = [2, 99], False, 0
    ask.run("print(1); print(2); print(3)")
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        ask.stream().content  # noqa: B018
    assert '"data": "3\\n"' in ask.stream().text.splitlines()[0]
    kaggle.knobs.stream = False
    assert ask.stream().status_code == 404


def test_links_expire_and_files_come_short(ask: Asking, kaggle: KaggleServer) -> None:
    """An expired link is an HTML page with a status of choice; a file can be short, openly or not."""
    ask.run("open('data.bin', 'wb').write(bytes(100))")
    (file,) = ask("ListKernelSessionOutput")["files"]
    whole = requests.get(file["url"], headers={"Range": "bytes=90-"}, timeout=10)
    assert (whole.status_code, whole.content) == (206, bytes(10))
    kaggle.knobs.short_by = 30
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        requests.get(file["url"], timeout=10)
    kaggle.knobs.short_openly = True
    assert len(requests.get(file["url"], timeout=10).content) == 70
    kaggle.knobs.link_life_s, kaggle.knobs.dead_link_status = 0, 200
    dead = requests.get(file["url"], timeout=10)
    assert (dead.status_code, dead.text[:15]) == (200, "<!DOCTYPE html>")


def test_pages_repeat_and_never_end(ask: Asking, kaggle: KaggleServer) -> None:
    """A page can come twice, a token can come for ever, and any name can be in a page."""
    ask.run("[open(f'{n}', 'w') for n in range(3)]")
    kaggle.knobs.hostile_files = {"../x": b"out", "/tmp/y": b"abs"}
    assert ask.pages(9) == [["0", "1"], ["2", "../x"], ["/tmp/y"]]
    kaggle.knobs.page_repeats = True
    assert ask.pages(9) == [["0", "1"]] * 2 + [["2", "../x"]] * 2 + [["/tmp/y"]] * 2
    kaggle.knobs.page_repeats, kaggle.knobs.token_repeats = False, True
    assert ask.pages(5)[1:] == [["2", "../x"]] * 4
    hostile = ask("ListKernelSessionOutput")["files"][-1]
    assert requests.get(hostile["url"], timeout=10).content == b"abs"


def test_quota_may_lack_what_is_used(ask: Asking, kaggle: KaggleServer) -> None:
    """The quota tells what is used, or leaves just that out."""
    kaggle.knobs.gpu_used_s = 3600
    assert ask("GetAcceleratorQuotaStatistics")["gpuQuota"]["timeUsed"] == "3600s"
    kaggle.knobs.quota_without_used = True
    assert "timeUsed" not in ask("GetAcceleratorQuotaStatistics")["gpuQuota"]
