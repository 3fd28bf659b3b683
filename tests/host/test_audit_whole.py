"""A fresh checkout holds; one digit, one line, two runs in each other's place: each is found and named."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command import ROOT, run_ferry

DIGIT, LINE, SWAP = "20261130-134228-5a8555", "20261130-134230-f2897d", "20261130-162431-c73bea"
THREE = Path("three") / "published"  # a runs' root of its own, since all of them would take minutes


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a fresh clone holds, and beside it a runs' root with three of the published runs."""
    target = tmp_path_factory.mktemp("clone") / "gpuferry"
    names = subprocess.check_output(["git", "-C", str(ROOT), "ls-files", "-z"], text=True).split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    for run_id in (DIGIT, LINE, SWAP):
        shutil.copytree(ROOT / "runs" / "published" / run_id, target / THREE / run_id)
    (target / THREE / "INDEX").write_text(f"{DIGIT}\n{LINE}\n{SWAP}\n")
    git = ["git", "-C", str(target), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "-f", "."], ["commit", "-q", "-m", "All of it"]):
        subprocess.run([*git, *command], check=True)
    return target


def audited(checkout: Path, monkeypatch: pytest.MonkeyPatch, *documents: str) -> tuple[int, str]:
    """What the audit of the three runs says, or of documents."""
    monkeypatch.setenv("FERRY_RUNS", str(checkout / ("runs" if documents else THREE.parent)))
    done = run_ferry("audit", *documents, cwd=checkout)
    return done.returncode, done.stderr


def next_digit(path: Path, before: str) -> None:
    """Change the digit behind a text."""
    text = path.read_text("utf-8")
    found = re.search(re.escape(before) + r"\D*(\d)", text)
    assert found
    made = str((int(found[1]) + 1) % 10)
    path.write_text(text[: found.start(1)] + made + text[found.end(1) :], "utf-8")


def in_log(checkout: Path) -> None:
    """A digit of a sample in a raw log."""
    next_digit(checkout / THREE / DIGIT / "parts" / "1" / "log.raw", '"ns":"')


def without_a_line(checkout: Path) -> None:
    """A raw log without one of its lines."""
    path = checkout / THREE / LINE / "parts" / "1" / "log.raw"
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:60] + lines[61:]), "utf-8")


def swapped(checkout: Path) -> None:
    """Two runs in each other's place."""
    first, second = (checkout / THREE / name for name in (DIGIT, SWAP))
    first.rename(first.with_name("kept"))
    second.rename(first)
    first.with_name("kept").rename(second)


CHANGES: dict[str, tuple[Callable[[Path], None], tuple[str, ...]]] = {
    "a digit of a CSV": (
        lambda checkout: next_digit(checkout / THREE / DIGIT / "results.csv", "t02-eager-float32"),
        (
            f"{DIGIT}/results.csv:3: ",
            f"{DIGIT}/results.csv:3; to get it back: git restore",
            "whoever published",
        ),
    ),
    "a digit of a raw log": (
        in_log,
        (f"{DIGIT}/parts/1/log.raw: ", f"{DIGIT}/parts/1/log.raw:", "git restore", "whoever published"),
    ),
    "a digit of a figure in the README": (
        lambda checkout: next_digit(checkout / "README.md", "route `sdpa` is **2."),
        (": 2.35×: it is stale: 20261130-143908 geomean(speedup) gives 2.25×; `ferry docs`",),
    ),
    "a digit of a table in the README": (
        lambda checkout: next_digit(checkout / "README.md", "passed | 4.38 | 1.73 | 2."),
        ("2.623× is stale, the run gives 2.523×; `ferry docs` writes it",),
    ),
    "a digit of a manifest": (
        lambda checkout: next_digit(checkout / THREE / DIGIT / "MANIFEST", ""),
        ("its SHA-256 is not the manifest's", f"{DIGIT}/MANIFEST:1; to get it back: git restore"),
    ),
    "a lost line": (
        without_a_line,
        (f"{LINE}/parts/1/log.raw: ", f"{LINE}/parts/1/log.raw:60", "git restore"),
    ),
    "two runs swapped": (
        swapped,
        (
            f"spec.json: it is of run {SWAP}, not of {DIGIT}",
            f"spec.json: it is of run {DIGIT}, not of {SWAP}",
            "git restore",
        ),
    ),
}


@pytest.mark.slow
def test_a_fresh_checkout_holds_and_each_change_is_named(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change by itself is found, with the file, and where the true copy is; then all holds again."""
    assert audited(checkout, monkeypatch)[0] == 0
    assert audited(checkout, monkeypatch, "README.md", "CHANGELOG.md")[0] == 0
    for name, (change, said) in CHANGES.items():
        change(checkout)
        code, words = audited(checkout, monkeypatch, *(["README.md"] if "README" in name else []))
        assert code == 3, name
        for sentence in said:
            assert sentence in words, f"{name}: {words}"
        subprocess.run(["git", "-C", str(checkout), "checkout", "-q", "--", "."], check=True)
    assert audited(checkout, monkeypatch)[0] == 0
    status = subprocess.check_output(["git", "-C", str(checkout), "status", "--porcelain"], text=True)
    assert status == ""  # nothing was written
