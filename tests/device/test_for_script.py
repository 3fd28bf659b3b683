"""The folder in which somebody's own script measures a model."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from builder.bundle import make_bundle
from builder.errors import Exit, FerryError, UsageError
from builder.for_script import new_folder, write_folder
from builder.spec import RunSpec

TESTS = Path(__file__).parents[1]
INDEPENDENT = TESTS / "harnesses" / "independent.py"
OWN_COPY = TESTS / "models" / "own_copy.py"
TINY = "--device=cpu --batch-size=2 --seq-len=5 --d-model=8 --heads=2 --ffn-dim=12 --layers=1 --warmup=1"

# A script of somebody's own: another layout, another gate, no final newline, a line end from Windows.
SCRIPT = b"""import sys
print("imported as", __name__, "from", __file__)
import helper_of_script\r
class Config: causal = True
class UserOptimizedTransformer: pass
ALIAS = UserOptimizedTransformer
def copy_model_weights(a, b): print("copy of the script")
def main():
    print("argv", sys.argv)
    model = (ALIAS if "--stub" in sys.argv else UserOptimizedTransformer)()
    copy_model_weights(None, model)
    print("model is", type(model).__module__)
    return 7
if __name__ == "__main__": sys.exit(main())"""
MODEL = """
print("the model is imported")
from torch_transformer_benchmark import Config, UserOptimizedTransformer as Stub
assert Config.causal
class OptimizedTransformer(Stub): pass
"""


def _files(folder: Path, **texts: str | bytes) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.py").write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script with a helper beside it."""
    return _files(tmp_path / "theirs", bench=SCRIPT, helper_of_script="") / "bench.py"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model in one file that imports from the script by the contest's name."""
    return _files(tmp_path / "mine", my_model=MODEL) / "my_model.py"


def _run(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", folder.name + "/run.py", *flags]
    return subprocess.run(command, cwd=folder.parent, capture_output=True, text=True, check=False)


def test_the_script_runs_the_model_and_sees_itself(tmp_path: Path, script: Path, model: Path) -> None:
    """The first line names model and hash, before either is imported; flags and exit code pass through."""
    target = tmp_path / "new" / "out"
    names = write_folder(script, target, model)
    assert names == ["bench.py", "ferry_candidate.py", "helper_of_script.py", "my_model.py", "run.py"]
    assert (target / "bench.py").read_bytes() == SCRIPT
    done = _run(target, "--anything", "4")
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    assert done.stdout.splitlines() == [
        f"model    : {target / 'my_model.py'} sha256={digest}",
        f"imported as bench from {target / 'bench.py'}",
        "the model is imported",
        "argv ['out/bench.py', '--anything', '4']",
        "copy of the script",
        "model is my_model",
    ]
    assert (done.returncode, done.stderr) == (7, "")


def test_the_stub_is_never_measured_in_the_model_s_place(tmp_path: Path, script: Path, model: Path) -> None:
    """A script that builds its stub by another name, and a model that has gone, are errors."""
    write_folder(script, tmp_path / "out", model)
    done = _run(tmp_path / "out", "--stub")
    assert done.returncode == 1
    assert "bench.py built its own stub, not the model" in done.stderr
    (tmp_path / "out" / "my_model.py").unlink()
    done = _run(tmp_path / "out")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no model file" in done.stderr


def test_a_contest_script_takes_a_model_with_its_own_weight_copy(tmp_path: Path) -> None:
    """An independently written contest script passes a model whose parameters have other names."""
    write_folder(INDEPENDENT, tmp_path / "out", OWN_COPY)
    done = _run(tmp_path / "out", *TINY.split(), "--repeats=2", "--causal")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"model    : {tmp_path / 'out' / 'own_copy.py'} sha256=")
    assert "summary: PASS" in done.stdout and "max_abs=0 " not in done.stdout
    assert "speedup  :" in done.stdout


def test_without_a_model_path_ours_goes_along(tmp_path: Path) -> None:
    """gpuferry's own package stands alone beside a contest script; its hash is the one that a run records."""
    names = write_folder(INDEPENDENT, tmp_path / "out", None)
    assert "model/__init__.py" in names
    assert not any("__pycache__" in name for name in names)
    done = _run(tmp_path / "out", *TINY.split(), "--repeats=2", "--padding-ratio=0.5")
    assert (done.returncode, done.stderr) == (0, "")
    recorded = make_bundle(RunSpec("smoke", ())).model_sha256
    assert done.stdout.startswith(f"model    : {tmp_path / 'out' / 'model'} sha256={recorded} ")
    assert "summary: PASS" in done.stdout


def test_an_empty_folder_is_filled(tmp_path: Path, script: Path, model: Path) -> None:
    """A target that exists and is empty is used."""
    (tmp_path / "out").mkdir()
    assert write_folder(script, tmp_path / "out", model)
    assert (tmp_path / "out" / "run.py").is_file()


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_is_there_already_stays(tmp_path: Path, script: Path, model: Path, kind: str) -> None:
    """A target with anything in it, or a file of that name, is refused with exit code 2 and left alone."""
    target = tmp_path / "out"
    kept = target / "kept.txt" if kind == "folder" else target
    kept.parent.mkdir(exist_ok=True)
    kept.write_text("mine")
    with pytest.raises(UsageError, match="is there already") as caught:
        write_folder(script, target, model)
    assert caught.value.exit_code is Exit.USAGE
    assert kept.read_text() == "mine"


def test_a_folder_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """An interruption leaves nothing behind; what came into the target meanwhile stays."""
    target = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt), new_folder(target) as draft:
        (draft / "half").write_text("half")
        assert not target.exists()
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match="not empty"), new_folder(target) as draft:
        (draft / "mine").write_text("mine")
        (target / "theirs").parent.mkdir()
        (target / "theirs").write_text("theirs")
    assert list(tmp_path.rglob("*")) == [target, target / "theirs"]


def _refusal(script: Path, model: Path | None) -> str:
    with pytest.raises(FerryError) as caught:
        write_folder(script, script.parent / "out", model)
    assert caught.value.exit_code is Exit.USAGE
    assert not (script.parent / "out").exists()
    return caught.value.message


def test_what_is_missing_is_said_before_anything_is_written(
    tmp_path: Path, script: Path, model: Path
) -> None:
    """No script, no model, a script without the names, a model without a class, an import nobody meets."""
    assert "there is no script" in _refusal(tmp_path / "nowhere.py", model)
    assert "there is no model at" in _refusal(script, tmp_path / "nowhere.py")
    mine = _files(tmp_path / "mine", bare="main = print\n", nothing="x = 1\n", greedy=MODEL + "import nope\n")
    assert "does not define UserOptimizedTransformer, copy_model_weights" in _refusal(mine / "bare.py", model)
    assert "does not define UserOptimizedTransformer or Opt" in _refusal(script, mine / "nothing.py")
    assert "greedy.py:6 imports nope" in _refusal(script, mine / "greedy.py")


def test_two_modules_of_one_name_are_refused(tmp_path: Path, script: Path, model: Path) -> None:
    """A script called like the model, like the helper of the other, or like `run.py` must be renamed."""
    theirs = _files(script.parent, run=SCRIPT, my_model=SCRIPT)
    assert "two modules called run" in _refusal(theirs / "run.py", model)
    assert "two modules called my_model" in _refusal(theirs / "my_model.py", model)
    mine = _files(model.parent, my_model=MODEL + "import helper_of_script\n", helper_of_script="x = 1\n")
    assert "two modules called helper_of_script" in _refusal(script, mine / "my_model.py")
