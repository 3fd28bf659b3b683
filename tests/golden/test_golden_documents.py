"""Documents that tell what is not so, with one fault each, as people really wrote them: each is found."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from builder.cli.audit import command
from harness.shapes import SHAPES, Case
from tests.command import ROOT
from tests.unit.measured_logs import Measured, write_log
from tests.unit.written_logs import CARD

SDPA = "20261130-143908-d535ad"
HALF = "20261130-150000-f16f16"
STUB = (ROOT / "templates" / "init" / "my_model.py.txt").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Golden:
    """A document, what must be said of it and on which line, and files beside it."""

    text: str
    line: int
    said: str
    files: dict[str, str] = field(default_factory=dict)


PUSH = "```\nferry push --backend manual --accelerator h200 --suite official --route sdpa\n```\n"
LEADS = f"# Fast\n\n**2.25×**<!-- = {SDPA} geomean(speedup) --> as fast.\n\n"
GOLDEN = {
    "an fp16 run described as fp32": Golden(
        f"# Fast\n\nIn fp32 shape 1 takes 1.00 ms<!-- = {HALF}/s01 median_ms .2f -->.\n",
        3,
        "1.00 ms: the text says float32; its dtype is float16",
    ),
    "a speed-up credited to hardware that the run did not have": Golden(
        f"# Fast on a T4\n\nWe are 2.25×<!-- = {SDPA} geomean(speedup) --> as fast.\n\n{PUSH}",
        3,
        "2.25×: the text says T4; its device is NVIDIA H200",
    ),
    "a figure that no run hit": Golden(
        "# Fast\n\nIt is 2.77× as fast as the baseline.\n",
        3,
        "2.77×: no run gives this; nearest 2.56× in 20261130-134230-f2897d/s11-",
    ),
    "a folder that never existed": Golden(
        "# Fast\n\nAll logs are in `results/kaggle-t4/`.\n", 3, "there is no results/kaggle-t4/"
    ),
    "a stale headline": Golden(
        f"# Fast\n\n**2.31×**<!-- = {SDPA} geomean(speedup) --> as fast.\n\n{PUSH}",
        3,
        f"2.31×: it is stale: {SDPA} geomean(speedup) gives 2.25×; `ferry docs` writes it",
    ),
    "a headline that the document's own command does not run": Golden(
        f"{LEADS}{PUSH.replace(' --route sdpa', '')}",
        3,
        "2.25×: it leads this document, and no command in it runs s01-sdpa-float32-official-cf1cbb; "
        "the nearest is s01-auto-float32-official-cf1cbb on line 6",
    ),
    "a headline of another model": Golden(
        f"{LEADS}{PUSH.replace('push', 'push --model mine.py')}",
        3,
        "2.25×: it leads this document, and no command in it runs s01-sdpa-float32-official-cf1cbb of the",
    ),
    "a README that runs the stub": Golden(
        f"{LEADS}{PUSH}\n```\nferry run --model fast.py\n```\n",
        10,
        "fast.py is a stub: its UserOptimizedTransformer does what the baseline does; 2.25× leads this",
        {"fast.py": STUB},
    ),
    "a README that runs the contest's script untouched": Golden(
        f"{LEADS}{PUSH}\n```\ncd bench\npython script.py --batch-size 4\n```\n",
        11,
        "script.py is a stub: its UserOptimizedTransformer does what the baseline does",
        {"bench/script.py": (ROOT / "tests" / "harnesses" / "independent.py").read_text(encoding="utf-8")},
    ),
    "a README that runs the stub of our own harness": Golden(
        f"{LEADS}{PUSH}\n```\npython -m harness --batch-size 4\n```\n",
        10,
        "`python -m harness` without --model runs its stub",
    ),
}


@pytest.fixture(scope="module")
def runs_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The committed runs, and one in float16."""
    root = tmp_path_factory.mktemp("runs")
    shutil.copytree(ROOT / "runs" / "published", root / "published")
    case, device = Case(SHAPES["s01"], "sdpa", dtype="float16"), replace(CARD, name="NVIDIA H200")
    write_log(root / HALF / "parts" / "1" / "log.raw", [Measured(case)], device, run=HALF)
    (root / HALF / "spec.json").write_text(json.dumps({"suite": "official", "cases": []}))
    return root


@pytest.fixture(autouse=True)
def somebodys_checkout(runs_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working folder is a checkout with these runs."""
    monkeypatch.setenv("FERRY_RUNS", str(runs_root))
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()


def audited(text: str) -> list[str]:
    """What `ferry audit README.md` finds in a text; in this process, where each log is read once."""
    Path("README.md").write_text(text, encoding="utf-8")
    done = CliRunner().invoke(command, ["README.md", "--json"], standalone_mode=False)
    found: list[str] = json.loads(done.stdout)["found"]
    assert done.return_value == (3 if found else 0)
    return found


@pytest.mark.parametrize("golden", GOLDEN.values(), ids=GOLDEN)
def test_a_golden_document_is_found_by_its_one_fault(golden: Golden) -> None:
    """The line is named, with what is so instead, and nothing else."""
    for name, content in golden.files.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(content, encoding="utf-8")
    (found,) = audited(golden.text)
    assert found.startswith(f"README.md:{golden.line}: {golden.said}"), found


def test_the_same_document_without_a_fault_passes() -> None:
    """A headline that the document's own command runs, beside the stub that `ferry init` begins with."""
    stub = "```\nferry init mine\ncd mine\nferry run\n```\n"
    assert audited(LEADS + PUSH + "\n" + stub) == []
    (headline, told) = audited(LEADS + stub)
    assert headline.startswith("README.md:3: 2.25×: it leads this document, and no command in it runs s01-")
    assert told.startswith("README.md:8: `ferry run` runs the stub that `ferry init` lays down; 2.25× leads")
