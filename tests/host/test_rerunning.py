"""A rerun sends the stored kernel: every byte but whose run it is and, elsewhere, what it asks for."""

from __future__ import annotations

import difflib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from builder import stored
from builder.runs import Run
from tests.command import ROOT, run_ferry

PUBLISHED = ROOT / "runs" / "published"
RUNS = (PUBLISHED / "INDEX").read_text(encoding="utf-8").split()
RUN = RUNS[-1]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runs' root with the newest published run."""
    shutil.copytree(PUBLISHED / RUN, tmp_path / "runs" / "published" / RUN)
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def again(root: Path, *options: str) -> Run:
    """The run that a rerun makes."""
    done = run_ferry("rerun", RUN, "--no-rehearsal", "--json", *options)
    assert done.returncode == 0, done.stderr
    return Run(root / json.loads(done.stdout)["run_id"])


def changed(old: Path, new: Path) -> list[str]:
    """The new file's lines that the old one does not have."""
    both = difflib.ndiff(old.read_text("utf-8").splitlines(), new.read_text("utf-8").splitlines())
    return [line[2:] for line in both if line.startswith("+ ")]


@pytest.mark.parametrize("run_id", RUNS)
def test_a_stored_kernel_is_put_together_again_byte_for_byte(run_id: str) -> None:
    """Taking its texts out and putting them back changes nothing, and its hash is the built one's."""
    part = PUBLISHED / run_id / "parts" / "1"
    for name in ("kernel.py", "kernel.ipynb"):
        text = (part / name).read_text("utf-8")
        assert stored.with_texts(part / name, stored.texts_of(part / name)) == text
    assert (
        stored.sha256_of(part / "kernel.ipynb")
        == json.loads((part / "bundle.json").read_text())["kernel_sha256"]
    )


def test_the_same_place_gets_the_same_bytes(root: Path) -> None:
    """One line differs, the one that says whose run it is, and the hash with RUN empty is the old one."""
    new, old = again(root), root / "published" / RUN
    for name in ("kernel.py", "kernel.ipynb"):
        [line] = changed(old / "parts" / "1" / name, new.part(1) / name)
        assert new.id in line
    facts = [json.loads((path / "bundle.json").read_text()) for path in (old / "parts" / "1", new.part(1))]
    assert facts[0] == facts[1]
    assert (new.spec.cases, new.spec.git_commit, new.spec.accelerator) == (
        Run(old).spec.cases,
        Run(old).spec.git_commit,
        "h200",
    )
    assert new.submission(1) is not None


def test_elsewhere_the_order_asks_for_something_else(root: Path) -> None:
    """Another accelerator changes the order's question and nothing of the sources."""
    new = again(root, "--accelerator", "a100", "--name", "on another card")
    part, before = new.part(1), root / "published" / RUN / "parts" / "1"
    assert stored.order_of(part / "kernel.py").terms.asked_accelerator == "a100"
    assert stored.files_of(part / "kernel.py") == stored.files_of(before / "kernel.py")
    assert len(changed(before / "kernel.py", part / "kernel.py")) == 2
    assert stored.order_of(part / "kernel.py").cases == new.spec.cases
    assert (
        stored.sha256_of(part / "kernel.ipynb")
        == json.loads((part / "bundle.json").read_text())["kernel_sha256"]
    )
    checked = subprocess.run(
        [sys.executable, str(part / "kernel.py"), "--check"], capture_output=True, text=True, check=True
    )
    assert checked.stdout.startswith("checked: ")


def test_an_altered_or_missing_kernel_is_not_sent(root: Path) -> None:
    """It is one sentence, and no run is begun."""
    part = root / "published" / RUN / "parts" / "1"
    text = (part / "kernel.ipynb").read_text("utf-8")
    (part / "kernel.ipynb").write_text(text.replace("Return the", "return the", 1), "utf-8")
    done = run_ferry("rerun", RUN, "--no-rehearsal")
    assert done.returncode == 2
    assert "was altered" in done.stderr
    shutil.rmtree(part)
    assert run_ferry("rerun", RUN, "--no-rehearsal").returncode == 2
    assert [path.name for path in root.iterdir()] == ["published"]


def test_a_place_that_contradicts_the_hardware_is_refused(root: Path) -> None:
    """A Kaggle name on another backend, or a name that nobody knows."""
    for options in (["--backend", "manual", "--accelerator", "NvidiaTeslaT4"], ["--accelerator", "NvidiaT5"]):
        assert run_ferry("rerun", RUN, "--no-rehearsal", *options).returncode == 2
