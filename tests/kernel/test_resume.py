"""A run that is gone on with: its next part has what is missing, with the code that the run began with."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from builder import runs
from builder.build import write_build
from builder.bundle import make_bundle
from builder.errors import UsageError
from builder.parting import stored_bundle
from builder.runs import Run
from builder.spec import RunSpec, Selection, plan
from tests.command import run_ferry

MODEL = """
from torch_transformer_benchmark import BaselineTransformer


class UserOptimizedTransformer(BaselineTransformer):
    pass
"""


@pytest.fixture
def cut(tmp_path: Path) -> Run:
    """A run carried by hand whose kernel came to its deadline before its first case."""
    model = tmp_path / "model.py"
    model.write_text(MODEL)
    words = ("--backend", "manual", "--accelerator", "cpu", "--shapes", "1,4", "--no-rehearsal")
    done = run_ferry("push", *words, "--model", str(model))
    assert done.returncode == 0, done.stderr
    [run] = runs.all_runs()
    assert carry(run, 1, tmp_path / "first", "--deadline", "1s").returncode == 4
    return run


def carry(run: Run, part: int, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a part's kernel as somebody would elsewhere, and import its log."""
    folder.mkdir()
    kernel = shutil.copy(run.part(part) / "kernel.py", folder)
    with (folder / "ferry.log").open("wb") as log:
        subprocess.run([sys.executable, kernel, *options], cwd=folder, stdout=log, check=True)
    return run_ferry("import", run.id, str(folder / "ferry.log"), "--json")


def rows(run: Run) -> list[tuple[str, str, str]]:
    """Each row's shape, part and status."""
    with (run.folder / "results.csv").open(newline="") as stream:
        return [(row["shape"], row["part"], row["status"]) for row in csv.DictReader(stream)]


def test_a_resumed_run_joins_its_parts(cut: Run, tmp_path: Path) -> None:
    """The next part has the missing cases, the model as it was, and its rows take their places in the run."""
    assert rows(cut) == [("t01", "1", "not_run"), ("t04", "1", "not_run")]
    (tmp_path / "model.py").write_text(MODEL.replace("pass", "number = 2"))
    resumed = run_ferry("resume")  # the newest run is meant: it is finished and lacks results
    assert resumed.returncode == 0, resumed.stderr
    assert "the code here has changed; part 2 runs the code" in resumed.stderr
    assert "part 2: 2 of 2 cases have no result yet" in resumed.stderr
    assert not cut.is_finished
    assert runs.find(None).id == cut.id
    assert stored_bundle(cut.part(2)).files == stored_bundle(cut.part(1)).files
    done = carry(cut, 2, tmp_path / "second")
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["counts"] == {"passed": 2}
    assert rows(cut) == [("t01", "2", "passed"), ("t04", "2", "passed")]
    assert cut.is_finished
    again = run_ferry("resume", cut.id)
    assert again.returncode == 2
    assert "has a result of every case" in again.stderr
    assert cut.parts() == [1, 2]


def test_what_is_under_way_is_not_resumed(cut: Run) -> None:
    """A second part waits for the first to be over: never two sessions for one case."""
    assert run_ferry("resume", cut.id).returncode == 0
    again = run_ferry("resume", cut.id)
    assert again.returncode == 2
    assert "part 2 of run" in again.stderr
    assert cut.parts() == [1, 2]


def test_an_altered_kernel_is_not_resumed(cut: Run) -> None:
    """A stored kernel whose files are not those of its bundle's hash is no base for another part."""
    kernel = cut.part(1) / "kernel.py"
    kernel.write_text(
        kernel.read_text().replace("class UserOptimizedTransformer", "class  UserOptimizedTransformer")
    )
    with pytest.raises(UsageError, match="was altered"):
        stored_bundle(cut.part(1))
    assert run_ferry("resume", cut.id).returncode == 2
    assert cut.parts() == [1]


def test_a_run_of_this_machine_that_was_cut_is_gone_on_with() -> None:
    """A local run that came to its limit is resumed here, with a longer one for the part."""
    words = ("--shapes", "1", "--route", "eager", "--timeout", "1s", "--detach")
    assert run_ferry("run", *words).returncode == 0
    assert run_ferry("pull").returncode == 4
    [run] = runs.all_runs()
    assert rows(run) == [("t01", "1", "not_run")]
    resumed = run_ferry("resume", run.id, "--timeout", "5m")
    assert resumed.returncode == 0, resumed.stderr
    done = run_ferry("pull")
    assert done.returncode == 0, done.stderr
    assert rows(run) == [("t01", "2", "passed")]
    assert [run.part_spec(part).timeout_s for part in run.parts()] == [1.0, 300.0]


def test_a_stored_bundle_is_the_one_that_was_built(tmp_path: Path) -> None:
    """Both models of a comparison come back from the kernel, under the names that they are imported by."""
    model = str(Path(__file__).parents[1] / "models" / "one_file.py")
    spec = RunSpec(
        "smoke", plan(Selection(own_model=True)), model_path=model, against="old", against_path=model
    )
    write_build(spec, tmp_path)
    built, stored = make_bundle(spec), stored_bundle(tmp_path)
    assert stored.files == built.files
    assert (stored.model, stored.against) == (built.model, built.against)
    assert stored.against
