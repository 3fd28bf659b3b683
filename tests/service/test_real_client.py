"""The official client, unmodified, against our service: what it sends, prints and writes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import ROOT
from tests.service.client import Client, kernel_folder
from tests.service.kaggle.knobs import SLOTS, Fault
from tests.service.kaggle.server import KaggleServer

HELLO = "print('hi')\nopen('/kaggle/working/answer.txt', 'w').write('42')\n"
REF = "alice/hello-kernel"


@pytest.fixture
def client(kaggle: KaggleServer, tmp_path: Path) -> Client:
    """The client of a user with an access token."""
    return Client.of(kaggle, tmp_path / "home")


@pytest.fixture
def ended(kaggle: KaggleServer, client: Client, tmp_path: Path) -> str:
    """The name of a kernel whose one version has run and left five files."""
    files = "import os\nos.mkdir('sub')\nfor n in range(5): open(f'sub/{n}.txt', 'w').write(str(n))\n"
    pushed = client("kernels", "push", "-p", kernel_folder(tmp_path / "ended", "print('done <&>')\n" + files))
    assert pushed.returncode == 0, pushed.stderr
    kaggle.sessions[0].wait()
    return REF


@pytest.mark.parametrize("kind", ["script", "notebook"])
def test_pushed_kernel_runs_and_its_output_comes_back(
    kaggle: KaggleServer, client: Client, tmp_path: Path, kind: str
) -> None:
    """Push, follow, status, output: what a program writes to `/kaggle/working` comes back."""
    folder = kernel_folder(tmp_path / "k", HELLO, kernel_type=kind, enable_gpu=True)
    pushed = client("kernels", "push", "-p", folder, "--accelerator", "NvidiaTeslaT4", "--timeout", "60")
    assert re.match(
        r"Kernel version 1 successfully pushed\. .*kaggle\.com/code/alice/hello-kernel", pushed.stdout
    )
    assert "hi\n" in client("kernels", "logs", "-f", f"{REF}/1").stdout
    assert 'has status "KernelWorkerStatus.COMPLETE"' in client("kernels", "status", f"{REF}/1").stdout
    fetched = client("kernels", "output", f"{REF}/1", "-p", tmp_path / "out")
    assert fetched.returncode == 0, fetched.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["answer.txt", "hello-kernel.log"]
    assert (tmp_path / "out" / "answer.txt").read_text() == "42"
    (sent,) = kaggle.calls("SaveKernel")
    assert sent.body | {"text": ""} == {
        "slug": REF,
        "newTitle": "hello kernel",
        "text": "",
        "language": "python",
        "kernelType": kind,
        "isPrivate": True,
        "enableGpu": True,
        "enableInternet": True,
        "enableTpu": False,
        "sessionTimeoutSeconds": 60,
        "machineShape": "NvidiaTeslaT4",
    }


def test_requests_come_through_the_proxy_with_a_token(kaggle: KaggleServer, client: Client) -> None:
    """The client sends absolute targets, its token as bearer, and asks about the token first."""
    assert "GPU" in client("quota").stdout
    assert [request.target for request in kaggle.requests] == [
        "http://localhost/api/v1/security.OAuthService/IntrospectToken",
        "http://localhost/api/v1/kernels.KernelsApiService/GetAcceleratorQuotaStatistics",
    ]
    assert {request.auth for request in kaggle.requests} == {"bearer"}
    assert kaggle.requests[0].body == {"token": "token-of-alice"}


def test_key_needs_no_introspection(kaggle: KaggleServer, tmp_path: Path) -> None:
    """With a username and a key there is one request, and it has basic credentials."""
    done = Client.of(kaggle, tmp_path / "home", auth="basic")("quota")
    assert re.search(r"GPU +0\.00h +30\.00h +30\.00h", done.stdout)
    assert [(request.call, request.auth) for request in kaggle.requests] == [
        ("GetAcceleratorQuotaStatistics", "basic")
    ]


def test_saved_login_is_refreshed(kaggle: KaggleServer, tmp_path: Path) -> None:
    """A saved login whose access token is long stale gets a new one and goes on with it."""
    client = Client.of(kaggle, tmp_path / "home", auth="none")
    (client.home / ".kaggle").mkdir()
    saved = {"refresh_token": "refresh-of-alice", "access_token": "old", "username": "alice", "scopes": []}
    saved["access_token_expiration"] = "2020-01-01T00:00:00+00:00"
    file = client.home / ".kaggle" / "credentials.json"
    file.write_text(json.dumps(saved), "utf-8")
    assert "GPU" in client("quota").stdout
    assert kaggle.calls("GenerateAccessToken")[0].auth == "none"
    assert json.loads(file.read_text("utf-8"))["access_token"] == "minted-1-for-alice"


def test_direct_requests_are_understood(tmp_path: Path) -> None:
    """With no proxy the client speaks to port 80 in origin form; a network namespace lets us have that."""
    if subprocess.run(["unshare", "-Urn", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no network namespaces here")
    command = ["unshare", "-Urn", sys.executable, "-m", "tests.service.on_port_80", str(tmp_path / "home")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [
        "/api/v1/security.OAuthService/IntrospectToken",
        "/api/v1/kernels.KernelsApiService/GetAcceleratorQuotaStatistics",
    ]


def test_refused_push_exits_0_and_starts_nothing(
    kaggle: KaggleServer, client: Client, tmp_path: Path
) -> None:
    """A third GPU session is refused with the service's words, and the client calls that success."""
    kaggle.knobs.hold = True
    for number in (1, 2):
        folder = kernel_folder(tmp_path / str(number), "", f"kernel-{number}", enable_gpu=True)
        assert "successfully" in client("kernels", "push", "-p", folder).stdout
    third = client("kernels", "push", "-p", kernel_folder(tmp_path / "3", "", "kernel-3", enable_gpu=True))
    assert third.stdout == f"Kernel push error: {SLOTS}\n"
    assert third.returncode == 0
    assert len(kaggle.sessions) == 2


def test_unusable_sources_are_told_unless_they_are_models(
    kaggle: KaggleServer, client: Client, tmp_path: Path
) -> None:
    """The client names a data set that could not be added, never a model, and exits 0."""
    kaggle.knobs.invalid = {"invalidDatasetSources": ["alice/none"], "invalidModelSources": ["a/b/c/d/1"]}
    done = client("kernels", "push", "-p", kernel_folder(tmp_path / "k", "print(1)\n"))
    assert "alice/none" in done.stdout
    assert "a/b/c/d/1" not in done.stdout + done.stderr
    assert done.returncode == 0


def test_large_source_is_refused(kaggle: KaggleServer, client: Client, tmp_path: Path) -> None:
    """Above 1 MB the push fails with the service's words, which the nested shape of errors hides."""
    folder = kernel_folder(tmp_path / "k", "#" * 1_000_001)
    words = "The kernel source must be less than 1 megabytes in size."
    assert words in client("kernels", "push", "-p", folder).stderr
    kaggle.knobs.error_shape = "nested"
    done = client("kernels", "push", "-p", folder)
    assert "400 Client Error" in done.stderr
    assert words not in done.stderr
    assert (done.returncode, kaggle.sessions) == (1, [])


def test_slug_comes_from_the_title(kaggle: KaggleServer, client: Client, tmp_path: Path) -> None:
    """A kernel whose title says otherwise is not where its id says: asking there is forbidden."""
    folder = kernel_folder(tmp_path / "k", "print(1)\n", "wanted-name", title="Sweep v2: shard 0/4")
    assert "/code/alice/sweep-v2-shard-0-4" in client("kernels", "push", "-p", folder).stdout
    asked = client("kernels", "status", "alice/wanted-name")
    assert "wrong kernel slug" in asked.stderr
    assert asked.returncode == 1


def test_each_version_has_its_own_status(kaggle: KaggleServer, client: Client, tmp_path: Path) -> None:
    """Asked by version the failed run has failed; asked without, for a while, so has the good one."""
    kaggle.knobs.stale_s = 300
    for source in ("raise SystemExit(3)\n", "print('good')\n"):
        client("kernels", "push", "-p", kernel_folder(tmp_path / "k", source))
        kaggle.sessions[-1].wait()
    words = {name: client("kernels", "status", name).stdout for name in (f"{REF}/1", f"{REF}/2", REF)}
    found = [re.findall(r"KernelWorkerStatus\.(\w+)", said) for said in words.values()]
    assert found == [["ERROR"], ["COMPLETE"], ["ERROR"]]
    assert [request.body.get("versionLabel") for request in kaggle.calls("GetKernelSessionStatus")] == [
        "v1",
        "v2",
        None,
    ]


def test_stream_that_is_cut_is_told_once(kaggle: KaggleServer, client: Client, tmp_path: Path) -> None:
    """Over two cuts the client shows each record once, in order, because the service replays them."""
    kaggle.knobs.stream_cuts = [2, 5]
    kaggle.knobs.torn_every = 0
    kaggle.knobs.hold = True
    source = "for n in range(8): print('line', n, 'é', flush=True)\n"
    client("kernels", "push", "-p", kernel_folder(tmp_path / "k", source))
    kaggle.knobs.hold = False
    said = client("kernels", "logs", "-f", f"{REF}/1").stdout
    assert [line for line in said.splitlines() if line.startswith("line")] == [
        f"line {n} é" for n in range(8)
    ]
    assert [request.query for request in kaggle.calls("stream")] == ["versionLabel=v1"] * 3
    assert kaggle.calls("stream")[0].headers["Accept"] == "text/event-stream, */*"


def test_log_is_an_array_of_records(ended: str, client: Client) -> None:
    """The one-shot log is the raw array: commas lead, brackets are escaped, the converter ends it."""
    said = client("kernels", "logs", ended).stdout
    assert said.splitlines()[1].startswith(",{")
    assert "\\u003c\\u0026\\u003e" in said
    records = json.loads(said)
    assert "".join(one["data"] for one in records if one["stream_name"] == "stdout") == "done <&>\n"
    assert "__results__.html" in records[-1]["data"]


def test_output_comes_in_pages_by_links_of_their_own_right(
    ended: str, kaggle: KaggleServer, client: Client, tmp_path: Path
) -> None:
    """Pages of two bring all five files, each by a link that is fetched without credentials."""
    done = client("kernels", "output", f"{ended}/1", "-p", tmp_path / "out", "--page-size", "2")
    assert done.returncode == 0, done.stderr
    assert [(tmp_path / "out" / "sub" / f"{n}.txt").read_text() for n in range(5)] == list("01234")
    assert [request.body["pageToken"] for request in kaggle.calls("ListKernelSessionOutput")] == [
        "",
        "2",
        "4",
    ]
    assert {request.auth for request in kaggle.calls("download")} == {"none"}
    assert all(request.target.startswith(kaggle.address) for request in kaggle.calls("download"))


def test_name_outside_the_folder_costs_the_log(
    ended: str, kaggle: KaggleServer, client: Client, tmp_path: Path
) -> None:
    """The client refuses a hostile name, and then leaves without the log."""
    kaggle.knobs.hostile_files = {"../escaped.txt": b"x"}
    done = client("kernels", "output", ended, "-p", tmp_path / "out")
    assert done.returncode == 1
    assert not (tmp_path / "escaped.txt").exists()
    assert not list((tmp_path / "out").glob("*.log"))


def test_listings_and_source(ended: str, client: Client, tmp_path: Path) -> None:
    """The kernel is listed, its files have sizes, and pull brings back its source and settings."""
    assert ended in client("kernels", "list", "-m").stdout
    assert re.search(r"sub/4\.txt +1 ", client("kernels", "files", ended).stdout)
    client("kernels", "pull", f"{ended}/1", "-m", "-p", tmp_path / "back")
    assert "done <&>" in (tmp_path / "back" / "hello-kernel.py").read_text()
    about = json.loads((tmp_path / "back" / "kernel-metadata.json").read_text())
    assert (about["id"], about["title"], about["is_private"]) == (ended, "hello kernel", True)


def test_deletion_stops_the_session(kaggle: KaggleServer, client: Client, tmp_path: Path) -> None:
    """Deleting is the stop: when the client has its answer, nothing of the session runs; then it is gone."""
    source = "import time\nprint('on', flush=True)\nwhile True: time.sleep(1)\n"
    client("kernels", "push", "-p", kernel_folder(tmp_path / "k", source))
    session = kaggle.sessions[0]
    assert next(session.log.follow()).data == "on\n"
    assert "deleted successfully" in client("kernels", "delete", "-y", REF).stdout
    assert session.status == "CANCEL_ACKNOWLEDGED"
    gone = client("kernels", "status", REF)
    assert ("Not found" in gone.stderr, gone.returncode) == (True, 1)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault("GetKernelSessionStatus", status=404, message="No such thing"), "No such thing"),
        (Fault("GetKernelSessionStatus", status=429, shape="html", retry_after="1"), "429 Client Error"),
        (Fault("GetKernelSessionStatus", status=503, shape="nested"), "503 Server Error"),
        (Fault("GetKernelSessionStatus", status=200, shape="html as json"), "Expecting value"),
        (Fault("GetKernelSessionStatus", "reset"), "Connection"),
        (Fault("GetKernelSessionStatus", "cut"), "IncompleteRead"),
    ],
    ids=["flat", "page", "nested", "page-as-json", "reset", "cut"],
)
def test_faults_reach_the_client(kaggle: KaggleServer, tmp_path: Path, fault: Fault, said: str) -> None:
    """Each way in which an answer can go wrong is one that the client sees, ends on, and does not retry."""
    client = Client.of(kaggle, tmp_path / "home", auth="basic")
    kaggle.knobs.faults = [fault]
    done = client("kernels", "status", REF)
    assert said in done.stderr
    assert done.returncode == 1
    assert len(kaggle.requests) == 1
