"""A folder of other people's runs, whole and broken, alike and unlike: all is listed, nothing is blended."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from builder import best, reading, results, runs, showing
from builder.backends import State
from builder.compare import KINDS, compare
from builder.errors import FerryError
from builder.records import read_records
from builder.reports.lines import groups_of, lines_of
from builder.runs import Run
from builder.spec import RunSpec
from harness.shapes import SHAPES, Case
from tests.command import ROOT, run_ferry
from tests.unit.measured_logs import Measured, write_log
from tests.unit.written_logs import CARD

H200 = replace(CARD, name="NVIDIA H200")

SDPA = Case(SHAPES["s01"], "sdpa")
NAMES = (
    "plain",
    "device",
    "protocol",
    "harness",
    "dtype",
    "simulated",
    "half",
    "empty",
    "corrupt_spec",
    "corrupt_csv",
    "corrupt_journal",
    "foreign_log",
    "refused",
    "hostile",
)
IDS = {name: f"20260102-0304{number:02}-abcdef" for number, name in enumerate(NAMES)}
LIKE = {
    "plain",
    "device",
    "protocol",
    "harness",
    "dtype",
    "half",
    "corrupt_csv",
    "corrupt_journal",
    "hostile",
}


def _half(folder: Path) -> None:
    log = folder / "parts" / "1" / "log.raw"
    log.write_bytes(log.read_bytes()[:5000])


BREAK: dict[str, Callable[[Path], object]] = {
    "half": _half,
    "empty": lambda folder: (folder / "parts" / "1" / "log.raw").unlink(),
    "corrupt_spec": lambda folder: (folder / "spec.json").write_bytes(b"\xff{"),
    "corrupt_csv": lambda folder: (folder / "results.csv").write_bytes(b'status,device\n"passed,\x00\xff\n'),
    "corrupt_journal": lambda folder: (folder / "journal.jsonl").write_bytes(b"\x00[[[\n{}\n"),
    "foreign_log": lambda folder: (folder / "parts" / "1" / "log.raw").write_bytes(b"\x7fELF" + bytes(999)),
    "refused": lambda folder: shutil.rmtree(folder / "parts"),
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder: runs as somebody pulled them, then some of them broken, and things that are no runs."""
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path))
    for name, run_id in IDS.items():
        case = replace(SDPA, protocol="strict") if name == "protocol" else SDPA
        case = replace(case, dtype="float16") if name == "dtype" else case
        device = {"device": H200, "simulated": replace(CARD, name="simulated Tesla T4")}.get(name, CARD)
        label = "\x1b[2J<script>alert(1)</script>/../../etc" if name == "hostile" else name
        with runs.create(RunSpec("official", (case,), run_id=run_id, name=label)) as draft:
            log = draft.part(1) / "log.raw"
            speed = 200.0 + 50 * len(name)
            harness = "other" if name == "harness" else "harness"
            write_log(log, [Measured(case, 2000.0, speed, error=label)], device, harness, run_id)
        run = Run(tmp_path / run_id)
        run.record(State.REFUSED if name == "refused" else State.DONE, part=1)
        found = results.rows(read_records(run.logs(), run_id, run.planned()))
        (run.folder / "results.csv").write_text(results.results_csv(found), encoding="utf-8")
        if name in BREAK:
            BREAK[name](run.folder)
        elif name != "refused":
            run.record("parsed")
    (tmp_path / "notes.txt").write_text("not a run")
    (tmp_path / "20260102-030499-abcdef").symlink_to(tmp_path / "nowhere")
    (tmp_path / "20260102-030498-abcdef").mkdir()
    return tmp_path


@pytest.mark.slow
def test_every_run_is_listed_and_shown_without_a_traceback(root: Path) -> None:
    """A listing, a page and the champions come of all that can be read; what cannot is named."""
    listed = run_ferry("ls", "--json")
    assert listed.returncode == 0, listed.stderr
    states = {row["run_id"]: row["state"] for row in json.loads(listed.stdout)["ls"]}
    assert set(IDS.values()) <= set(states)
    assert states[IDS["corrupt_spec"]] == "damaged"
    for words in (("ls",), ("best",), ("report", str(root), "-o", str(root / "page.html")), ("audit",)):
        done = run_ferry(*words)
        assert done.returncode in (0, 3), done.stderr
        assert "Traceback" not in done.stderr
        assert "\x1b[2J" not in done.stderr + done.stdout
    page = (root / "page.html").read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    for name in ("corrupt_spec", "empty", "refused"):
        assert IDS[name] in page
    for run_id in IDS.values():
        try:
            told = "\n".join(showing.show(Run(root / run_id)).lines())
        except FerryError as problem:
            told = problem.message
        assert run_id in told


def test_unlike_runs_are_never_blended_nor_compared(root: Path) -> None:
    """Each device, protocol, harness and dtype has totals of its own, and a pair of unlike is refused."""
    found, problems = reading.read_all([str(root)])
    by_name = {name: one for one in found for name, run_id in IDS.items() if one.name == run_id}
    assert LIKE | {"simulated", "foreign_log"} == set(by_name)
    assert len(problems) == 3
    groups = groups_of(lines_of(found))
    assert len(groups) == len({line.run for group in groups for line in group.lines})
    assert all(len(group.lines) == 1 for group in groups)
    for name, other in by_name.items():
        pairs = compare(by_name["plain"], other).pairs
        refused = {kind for kind in KINDS for pair in pairs if pair.refusal.startswith(f"{kind}: ")}
        assert refused == ({name} & set(KINDS)), name
    assert "simulated" in compare(by_name["plain"], by_name["simulated"]).pairs[0].refusal
    kinds = [champion.best.kind for champion in best.champions()]
    assert len(kinds) == len(set(kinds)) == 4
    devices = {champion.best.cells["device"] for champion in best.champions()}
    assert devices == {CARD.name, H200.name}


def test_published_runs_of_others_stand_beside_them(root: Path) -> None:
    """A real run in the same folder has its own total, and keeps it."""
    run_id = "20261130-134228-5a8555"
    shutil.copytree(ROOT / "runs" / "published" / run_id, root / run_id)
    found, _ = reading.read_all([str(root)])
    alone = reading.read(str(root / run_id))
    own = [group for group in groups_of(lines_of(found)) if group.lines[0].run == run_id]
    assert [group.geomean for group in own] == [group.geomean for group in groups_of(lines_of([alone]))]
