"""The official client, unmodified, against our service: what it sends, prints and writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.service.client import Client, kernel_folder
from tests.service.kaggle.server import KaggleServer

HELLO = "print('hi')\nopen('/kaggle/working/answer.txt', 'w').write('42')\n"


@pytest.fixture
def client(kaggle: KaggleServer, tmp_path: Path) -> Client:
    """The client of a user with an access token."""
    return Client.of(kaggle, tmp_path / "home")


@pytest.mark.parametrize("kind", ["script", "notebook"])
def test_pushed_kernel_runs_and_its_output_comes_back(
    kaggle: KaggleServer, client: Client, tmp_path: Path, kind: str
) -> None:
    """Push, follow, status, output: what a program writes to `/kaggle/working` comes back."""
    folder = kernel_folder(tmp_path / "k", HELLO, kernel_type=kind, enable_gpu=True)
    pushed = client("kernels", "push", "-p", folder, "--accelerator", "NvidiaTeslaT4", "--timeout", "60")
    assert re.match(
        r"Kernel version 1 successfully pushed\. .* https://www\.kaggle\.com/code/alice/hello-kernel",
        pushed.stdout,
    )
    followed = client("kernels", "logs", "-f", "alice/hello-kernel/1")
    assert "hi\n" in followed.stdout
    status = client("kernels", "status", "alice/hello-kernel/1")
    assert 'has status "KernelWorkerStatus.COMPLETE"' in status.stdout
    fetched = client("kernels", "output", "alice/hello-kernel/1", "-p", tmp_path / "out")
    assert fetched.returncode == 0, fetched.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["answer.txt", "hello-kernel.log"]
    assert (tmp_path / "out" / "answer.txt").read_text() == "42"
    (sent,) = kaggle.calls("SaveKernel")
    assert sent.body["machineShape"] == "NvidiaTeslaT4"
    assert sent.body["sessionTimeoutSeconds"] == 60
