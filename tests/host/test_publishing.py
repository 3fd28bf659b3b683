"""Evidence goes out whole, and whatever was changed in it afterwards is found and named."""

from __future__ import annotations

import json
import shutil
import stat
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from builder import archive, manifest, publishing, runs
from builder.errors import RefusedHereError, UsageError
from builder.runs import Run
from builder.verifying import verify
from harness.events import SIMULATED, Device, decode, encode
from tests.command import ROOT, run_ferry

RUN = "20261130-134228-5a8555"
OTHER = "20261130-134230-f2897d"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runs' root with two real runs of one's own."""
    for run_id in (RUN, OTHER):
        shutil.copytree(ROOT / "runs" / "published" / run_id, tmp_path / "runs" / run_id)
        (tmp_path / "runs" / run_id / manifest.NAME).unlink()
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


@pytest.fixture(scope="module")
def published_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was published to a folder."""
    target = tmp_path_factory.mktemp("evidence") / RUN
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FERRY_RUNS", str(tmp_path_factory.mktemp("runs")))
        shutil.copytree(ROOT / "runs" / "published" / RUN, runs.runs_root() / RUN)
        return publishing.publish(Run(runs.runs_root() / RUN), target).place


@pytest.fixture
def evidence(published_once: Path, root: Path) -> Path:
    """A published run, to be changed."""
    return Path(shutil.copytree(published_once, root / "published" / RUN))


def test_a_published_run_is_listed_and_verifies(root: Path) -> None:
    """It lies in its place, stands in the index, and holds."""
    evidence = publishing.publish(Run(root / RUN)).place
    assert evidence.parent.joinpath("INDEX").read_text() == f"{RUN}\n"
    verdict = verify(evidence)
    assert (verdict.found, verdict.exit_code, len(verdict.held)) == ([], 0, 4)
    with pytest.raises(UsageError, match="something at"):
        publishing.publish(Run(evidence.parents[1] / RUN))


def test_an_archive_is_the_same_bytes_each_time_and_needs_nothing_else(root: Path, tmp_path: Path) -> None:
    """Two archives of a run are equal, and one command in an empty folder verifies it."""
    first, second = (publishing.publish(Run(root / RUN), tmp_path / f"{n}.zip").place for n in (1, 2))
    assert first.read_bytes() == second.read_bytes()
    empty = tmp_path / "elsewhere"
    empty.mkdir()
    done = run_ferry("verify", str(first), cwd=empty)
    assert done.returncode == 0, done.stderr
    for word in ("Recorded: yes", "Served: not shown", "Re-run: not shown"):
        assert word in done.stderr


def test_a_report_may_lie_beside_the_evidence(root: Path, tmp_path: Path) -> None:
    """It is in the manifest, and verifying says that it was not drawn again."""
    pytest.importorskip("vl_convert")
    done = run_ferry("publish", RUN, "-o", str(tmp_path / "with.zip"), "--report")
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / "with.zip") as packed:
        assert packed.read(f"{RUN}/report.html").startswith(b"<!doctype html>")
    verified = run_ferry("verify", str(tmp_path / "with.zip"))
    assert verified.returncode == 0
    assert "report.html is as it was published" in verified.stderr


def replace_once(name: str, old: str, new: str) -> Callable[[Path], None]:
    """A change of a few characters in a file."""

    def change(folder: Path) -> None:
        text = (folder / name).read_text("utf-8")
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1), "utf-8")

    return change


def drop_line(name: str, number: int) -> Callable[[Path], None]:
    """A file that has lost a line."""

    def change(folder: Path) -> None:
        lines = (folder / name).read_text("utf-8").splitlines(keepends=True)
        (folder / name).write_text("".join(lines[:number] + lines[number + 1 :]), "utf-8")

    return change


def swap(folder: Path) -> None:
    """Another run's files in the folder of this one."""
    shutil.rmtree(folder)
    shutil.copytree(ROOT / "runs" / "published" / OTHER, folder)


CHANGES: list[tuple[Callable[[Path], None], str]] = [
    (replace_once("results.csv", ",passed,", ",error,"), "results.csv:2: status is 'error'"),
    (replace_once("samples.csv", "0", "1"), "samples.csv"),
    (replace_once("parts/1/log.raw", '"ns":"', '"ns":"e'), "parts/1/log.raw: line"),
    (drop_line("parts/1/events.jsonl", 3), "events.jsonl:4"),
    (drop_line("parts/1/kernel.py", 400), "kernel.py"),
    (replace_once("parts/1/kernel.ipynb", "tempfile", "tempfilo"), "kernel.ipynb"),
    (
        replace_once("parts/1/bundle.json", '"kernel_sha256": "', '"kernel_sha256": "0'),
        "kernel.ipynb: its SHA-256",
    ),
    (replace_once("spec.json", '"layers": 1', '"layers": 2'), "spec.json"),
    (lambda folder: (folder / "results.csv").unlink(), "results.csv: it cannot be read"),
    (lambda folder: shutil.rmtree(folder / "parts"), "parts: there is none"),
    (swap, f"it is of run {OTHER}, not of {RUN}"),
]


@pytest.mark.parametrize("known_to_manifest", [False, True])
@pytest.mark.parametrize(
    ("change", "said"), CHANGES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_change_is_found_and_named(
    evidence: Path, change: Callable[[Path], None], said: str, known_to_manifest: bool
) -> None:
    """One digit, one line, one file: it is found, also where the manifest was made to fit."""
    change(evidence)
    if known_to_manifest:
        manifest.write(evidence)
    verdict = verify(evidence)
    assert verdict.exit_code == 3
    assert any(said in sentence for sentence in verdict.found), verdict.found
    assert "whoever published it" in verdict.copies


def test_a_change_of_the_manifest_is_found(evidence: Path) -> None:
    """A digit, a lost line, and a file that nobody listed."""
    text = (evidence / "MANIFEST").read_text()
    (evidence / "MANIFEST").write_text(text.replace(text[:1], "f" if text[0] != "f" else "0", 1))
    assert verify(evidence).exit_code == 3
    (evidence / "MANIFEST").write_text(text.partition("\n")[2])
    assert "it is not in the manifest" in verify(evidence).found[0]
    (evidence / "MANIFEST").write_text(text)
    (evidence / "more.txt").write_text("")
    assert verify(evidence).found == ["more.txt: it is not in the manifest"]


def test_a_lost_line_of_the_only_log_leaves_the_run_unfinished_and_its_csv_wrong(evidence: Path) -> None:
    """Without its twin in the outputs nothing can stand in for a lost event."""
    shutil.rmtree(evidence / "parts" / "1" / "outputs")
    drop_line("parts/1/log.raw", 30)(evidence)
    manifest.write(evidence)
    verdict = verify(evidence)
    assert verdict.exit_code == 3
    assert any("missing in the sequence" in sentence for sentence in verdict.caveats)


def test_links_and_pipes_in_a_folder_are_not_followed(evidence: Path) -> None:
    """A link to an endless file is named and nothing is read."""
    (evidence / "spec.json").unlink()
    (evidence / "spec.json").symlink_to("/dev/zero")
    assert verify(evidence).found == ["spec.json: it is a link or a device; nothing was read"]


# --- what is not published --------------------------------------------------------------------------------


def test_simulated_rows_are_refused(root: Path) -> None:
    """A made-up card measures nothing, so that nothing of it is evidence."""
    for log in Run(root / RUN).logs():
        log.write_text(resealed(log.read_text("utf-8")), "utf-8")
    with pytest.raises(UsageError, match="simulated device"):
        publishing.publish(Run(root / RUN))
    assert not (root / "published").exists()
    manifest.write(root / RUN)
    assert any("simulated device" in sentence for sentence in verify(root / RUN).found)


def resealed(text: str) -> str:
    """The log with a simulated card, and checks that fit."""
    lines = []
    for line in text.splitlines():
        event = decode(line)
        if event and isinstance(event.body, Device):
            device = replace(event.body, name=f"{SIMULATED}{event.body.name}")
            lines.append(encode(replace(event, body=device)))
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def test_a_credential_in_a_log_is_not_published(root: Path) -> None:
    """It is refused with file and line, and nothing is left behind."""
    log = root / RUN / "parts" / "1" / "log.raw"
    log.write_text(f"KGAT_{'0a' * 16}\n{log.read_text('utf-8')}", "utf-8")
    with pytest.raises(RefusedHereError, match=r"parts/1/log\.raw:1"):
        publishing.publish(Run(root / RUN))
    assert list((root / "published").iterdir()) == []


def test_an_unfinished_run_says_so_where_it_is_published_and_verified(root: Path) -> None:
    """A log that was cut is evidence of what it has, and no more."""
    shutil.rmtree(root / OTHER / "parts" / "1" / "outputs.2")
    (root / OTHER / "parts" / "1" / "log.2.raw").unlink()
    published = publishing.publish(Run(root / OTHER))
    assert any(note.startswith("unfinished") for note in published.notes)
    verdict = verify(published.place)
    assert (verdict.found, verdict.exit_code) == ([], 4)
    with pytest.raises(UsageError, match="no log yet"):
        (root / RUN / "parts").rename(root / RUN / "gone")
        publishing.publish(Run(root / RUN))


# --- hostile archives -------------------------------------------------------------------------------------


def member(name: str, mode: int = stat.S_IFREG | 0o644) -> zipfile.ZipInfo:
    """A member of an archive as an attacker writes it."""
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([member("../out.txt")], "leads out"),
        ([member("run/../../out.txt")], "leads out"),
        ([member("/out.txt")], "leads out"),
        ([member("C:/out.txt")], "leads out"),
        ([member("run\\..\\out.txt")], "leads out"),
        ([member("run/link", stat.S_IFLNK | 0o777)], "a link or a device"),
        ([member("run/spec.json"), member("run/SPEC.json")], "it comes twice"),
        ([member("run/\x1b[2J")], "cannot be shown"),
        ([member("run/file"), member("run/file/below")], "cannot be unpacked"),
    ],
)
def test_a_hostile_archive_is_refused(members: list[zipfile.ZipInfo], said: str, tmp_path: Path) -> None:
    """It is one sentence and exit 2, and no file lies outside."""
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as written:
        for info in members:
            written.writestr(info, "content")
    before = set(tmp_path.rglob("*"))
    done = run_ferry("verify", str(tmp_path / "bad.zip"), cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert set(tmp_path.rglob("*")) == before


def test_bombs_and_broken_archives_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what an archive says of its size, by how many files it has, and when it is none."""
    monkeypatch.setattr(archive, "MOST_BYTES", 1000)
    monkeypatch.setattr(archive, "MOST_FILES", 5)
    with zipfile.ZipFile(tmp_path / "large.zip", "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr("run/zeros", bytes(100_000))
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as written:
        for number in range(6):
            written.writestr(f"run/{number}", "")
    (tmp_path / "none.zip").write_bytes(b"PK\x03\x04 and no more")
    whole = (tmp_path / "large.zip").read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[: len(whole) // 2])
    for name in ("large", "many", "none", "cut"):
        target = tmp_path / f"to-{name}"
        target.mkdir()
        with pytest.raises(UsageError):
            archive.unpack(tmp_path / f"{name}.zip", target)
        assert list(target.iterdir()) == []


def test_verify_in_json_is_an_envelope(evidence: Path) -> None:
    """What was found is data, with the same exit code."""
    replace_once("results.csv", ",passed,", ",oom,")(evidence)
    done = run_ferry("verify", str(evidence), "--json")
    document = json.loads(done.stdout)
    assert done.returncode == document["exit_code"] == 3
    assert document["run_id"] == RUN
    assert len(document["found"]) == 2
    assert runs.find(RUN).id == RUN
