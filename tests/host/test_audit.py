"""Runs, published or one's own, are held against their raw logs, and whatever was changed is named."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from builder import manifest
from builder.audit import Audited, audit
from builder.runs import Run
from tests.command import ROOT, run_ferry

RUN = "20261130-134228-5a8555"
OTHER = "20261130-134230-f2897d"


@pytest.fixture(scope="module")
def checkout_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git checkout with two of the committed runs, published in it, and one of them as one's own."""
    checkout = tmp_path_factory.mktemp("checkout")
    published = checkout / "runs" / "published"
    for run_id in (RUN, OTHER):
        shutil.copytree(ROOT / "runs" / "published" / run_id, published / run_id)
    (published / "INDEX").write_text(f"{RUN}\n{OTHER}\n")
    git = ["git", "-C", str(checkout), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Publish two runs"]):
        subprocess.run([*git, *command], check=True)
    own = Path(shutil.copytree(published / RUN, checkout / "runs" / RUN))
    (own / manifest.NAME).unlink()
    return checkout


@pytest.fixture
def root(checkout_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The runs' root of such a checkout, to be changed."""
    root = Path(shutil.copytree(checkout_once, tmp_path / "checkout")) / "runs"
    monkeypatch.setenv("FERRY_RUNS", str(root))
    return root


def what_is_found(root: Path) -> list[Audited]:
    """The places where something was found."""
    return [one for one in audit(root) if one.found]


def swap_digit(name: str, where: str) -> Callable[[Path], None]:
    """Another digit where a file has the first digit behind a text."""

    def change(folder: Path) -> None:
        text = (folder / name).read_text("utf-8")
        start = text.index(where) + len(where)
        at = next(at for at in range(start, len(text)) if text[at].isdecimal())
        (folder / name).write_text(text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :], "utf-8")

    return change


def lose_line(name: str, number: int) -> Callable[[Path], None]:
    """A file without one of its lines."""

    def change(folder: Path) -> None:
        lines = (folder / name).read_text("utf-8").splitlines(keepends=True)
        (folder / name).write_text("".join(lines[: number - 1] + lines[number:]), "utf-8")

    return change


CHANGES: list[tuple[str, Callable[[Path], None], str, str]] = [
    ("a digit of a CSV", swap_digit("results.csv", "\n1,"), "results.csv:2: ", "results.csv:2"),
    ("a digit of a log", swap_digit("parts/1/log.raw", '"ns":"'), "parts/1/log.raw: ", "parts/1/log.raw:"),
    ("a digit of a manifest", swap_digit("MANIFEST", ""), "its SHA-256 is not the manifest's", "MANIFEST:1"),
    ("a line of a CSV", lose_line("samples.csv", 9), "samples.csv:9: ", "samples.csv:"),
    ("a line of a log", lose_line("parts/1/log.raw", 40), "parts/1/log.raw: ", "parts/1/log.raw:"),
    ("a line of a manifest", lose_line("MANIFEST", 2), "it is not in the manifest", "MANIFEST:1"),
]


@pytest.mark.parametrize(("change", "said", "git"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_a_change_of_a_published_run_is_named_with_its_line_and_its_true_copy(
    root: Path, change: Callable[[Path], None], said: str, git: str
) -> None:
    """The run is named, nothing else is, and git has the true line."""
    change(root / "published" / RUN)
    found = what_is_found(root)
    assert root / "published" / RUN in [one.place for one in found]
    assert root / "published" / OTHER not in [one.place for one in found]
    audited = found[0]
    assert any(said in sentence for sentence in audited.found), audited.found
    assert f"{RUN}/{git}" in audited.copies[0]
    assert f"git restore {root / 'published' / RUN}" in audited.copies[0]
    assert "whoever published it" in audited.copies[1]


@pytest.mark.parametrize(
    ("change", "said"),
    [(c[1], c[2]) for c in CHANGES if "manifest" not in c[0]],
    ids=[c[0] for c in CHANGES if "manifest" not in c[0]],
)
def test_a_change_of_a_run_of_ones_own_is_named_and_the_published_copy_too(
    root: Path, change: Callable[[Path], None], said: str
) -> None:
    """Also a line of chatter, which no figure is made from, is not that of the published copy."""
    change(root / RUN)
    (found,) = what_is_found(root)
    assert any(said in sentence for sentence in found.found), found.found
    assert str(root / "published" / RUN) in found.copies[-1]
    assert f"ferry parse {RUN}" in found.copies[-1]


def test_two_runs_that_were_swapped_are_both_named(root: Path) -> None:
    """Each is whole in itself and lies under the other's name."""
    published = root / "published"
    (published / RUN).rename(published / "kept")
    (published / OTHER).rename(published / RUN)
    (published / "kept").rename(published / OTHER)
    said = [sentence for one in what_is_found(root) for sentence in one.found]
    assert f"spec.json: it is of run {OTHER}, not of {RUN}" in said
    assert f"spec.json: it is of run {RUN}, not of {OTHER}" in said


def test_the_index_lists_what_there_is(root: Path) -> None:
    """A folder that never existed, one that is listed twice, and one that is not listed."""
    (root / "published" / "INDEX").write_text(f"{RUN}\n20260101-000000-abcdef\n{RUN}\n")
    index = what_is_found(root)[0]
    assert index.found == (
        "INDEX:2: there is no published run '20260101-000000-abcdef'",
        f"INDEX:3: {RUN} is listed again",
        f"INDEX: it does not list {OTHER}",
    )
    assert "INDEX:2" in index.copies[0]


def test_an_untouched_checkout_is_green_and_an_unfinished_run_is_skipped(root: Path) -> None:
    """Also the committed run that a deadline cut, and nothing is written."""
    (root / "20270101-000000-abcdef").mkdir()
    done = run_ferry("audit", cwd=root)
    assert done.returncode == 0, done.stderr
    assert "3 runs are what their raw logs make; something was found in 0 places" in done.stderr
    assert "not finished: 20270101-000000-abcdef" in done.stderr
    status = subprocess.check_output(["git", "status", "--porcelain"], cwd=root, text=True)
    assert status.split() == ["??", f"runs/{RUN}/"]


def test_a_resumed_run_is_not_held_against_the_figures_of_its_first_part(root: Path) -> None:
    """Until it is parsed again its CSVs lack the cases that were pushed once more."""
    run = Run(root / RUN)
    run.record("resumed", detail="part 2")
    shutil.copytree(run.part(1), run.part(2))
    assert [one.skipped for one in audit(root) if one.place == run.folder] == ["it is not finished"]


def test_findings_are_data_with_exit_code_3(root: Path) -> None:
    """The envelope names each difference, with the hints beside."""
    CHANGES[0][1](root / "published" / RUN)
    done = run_ferry("audit", "--json", cwd=root)
    document = json.loads(done.stdout)
    assert done.returncode == document["exit_code"] == 3
    assert document["counts"] == {"held": 3, "found": 1, "skipped": 0}
    assert any("results.csv:2: " in sentence for sentence in document["found"])
    assert any("git restore" in hint for hint in document["hints"])
