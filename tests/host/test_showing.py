"""`ferry show` leads each figure back to raw samples, and says of a run what is known of it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from builder import runs, showing
from builder.runs import Run
from builder.spec import RunSpec, Selection, plan
from builder.why import why
from harness.events import MARKER, Samples, decode
from tests.command import ROOT, run_ferry

PUBLISHED = ROOT / "runs" / "published"
CUT = Run(PUBLISHED / "20261130-134230-f2897d")  # two attempts, two logs
CASE = "s09-compiled-float32-official-cf1cbb"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runs' root whose published runs are the committed ones."""
    (tmp_path / "published").symlink_to(PUBLISHED)
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path))
    return tmp_path


def test_the_places_named_hold_the_samples_of_the_csv() -> None:
    """Each named line decodes to samples, and together they are the case's rows of samples.csv."""
    from_places = []
    for taken in why(CUT, CASE).taken:
        event = decode(taken.log.read_text("utf-8").splitlines()[taken.line - 1])
        assert event is not None
        assert isinstance(event.body, Samples)
        assert event.body.values == taken.ns
        from_places += [(taken.side, taken.round, taken.start + n, ns) for n, ns in enumerate(taken.ns)]
    with (CUT.folder / "samples.csv").open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["case_id"] == CASE]
    from_csv = [(row["side"], int(row["round"]), int(row["index"]), int(row["ns"])) for row in rows]
    assert sorted(from_places) == sorted(from_csv)
    assert len(from_csv) == 600


def test_the_steps_end_at_the_figures_of_the_row(root: Path) -> None:
    """Medians, interval, noise floor, verdict, hashes and a command are there, for people and programs."""
    shown = run_ferry("show", "20261130-134230/s09", "--why").stderr
    with (CUT.folder / "results.csv").open(encoding="utf-8", newline="") as stream:
        row = next(row for row in csv.DictReader(stream) if row["case_id"] == CASE)
    for column in ("median_ms", "baseline_median_ms", "speedup", "speedup_low", "speedup_high", "device"):
        assert row[column] in shown
    for column in ("bundle_sha256", "harness_sha256", "git_commit", "driver", "torch"):
        assert row[column] in shown
    assert "ferry push --suite=official --shapes=s09 --route=compiled" in shown
    document = json.loads(run_ferry("show", "20261130-134230/s09", "--why", "--json").stdout)
    assert sum(len(taken["ns"]) for taken in document["samples"]) == 600


def test_a_run_tells_its_cost_its_files_and_its_commands(root: Path) -> None:
    """State, both times, hashes, each file, and the commands that repeat it."""
    document = json.loads(run_ferry("show", CUT.id, "--json").stdout)
    facts = document["facts"]
    assert facts["cost"]["wall time"].startswith("439 s")
    assert facts["cost"]["device time"] == "320.8 s in 2 attempts"
    assert facts["provenance"]["git"].endswith("clean")
    assert {Path(name).name for name in document["files"]} >= {
        "log.raw",
        "log.2.raw",
        "MANIFEST",
        "spec.json",
    }
    assert document["commands"][-1] == f"ferry rerun {CUT.id}"


def test_a_run_that_is_not_over_shows_what_there_is(root: Path) -> None:
    """Without log, kernel and submission the state and the command are still told."""
    run_id = "20260101-000000-abcdef"
    with runs.create(RunSpec("smoke", plan(Selection()), run_id=run_id)) as draft:
        draft.part(1).mkdir(parents=True)
    run = Run(root / run_id)
    run.record("refused", 1, "no slot")
    shown = "\n".join(showing.show(run).lines())
    assert "part 1 refused" in shown
    assert "has no log yet" in shown
    assert "ferry push --suite=smoke --backend=local" in shown


def test_a_hostile_name_forges_no_line(root: Path) -> None:
    """Line ends and terminal sequences in what people wrote become blanks, in all but the command."""
    run_id = "20260101-000000-fedcba"
    name = "x\n  state        passed\x1b[2J"
    with runs.create(RunSpec("smoke", plan(Selection()), run_id=run_id, name=name)) as draft:
        draft.part(1).mkdir(parents=True)
    shown = list(showing.show(Run(root / run_id)).lines())
    [told] = [line for line in shown if line.strip().startswith("name")]
    assert told.endswith("x state passed")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("20261130-134230/s0", "cases of run"),
        ("20261130-134230/none", "its cases: s01-"),
        ("1999/s01", "no run in"),
    ],
)
def test_a_case_that_is_not_there_is_one_sentence(root: Path, word: str, said: str) -> None:
    """The cases that there are are listed."""
    done = run_ferry("show", word, "--why")
    assert done.returncode == 2
    assert said in done.stderr


def test_a_log_tells_its_cases_in_words(root: Path) -> None:
    """Whoever follows a log sees each case begin and end, and no event's line."""
    done = run_ferry("logs", CUT.id)
    said = [line for line in done.stdout.splitlines() if line.startswith("ferry: ")]
    assert said[:2] == [
        "ferry: s01-compiled-float32-official-cf1cbb begins",
        "ferry: s01-compiled-float32-official-cf1cbb passed",
    ]
    assert MARKER not in done.stdout
    told = json.loads(run_ferry("logs", CUT.id, "--json").stdout)
    assert (told["run_id"], told["exit_code"]) == (CUT.id, 0)
    assert told["lines"] == done.stdout.splitlines()
