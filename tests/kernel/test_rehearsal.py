"""The rehearsal: the exact kernel runs one tiny case here, and says in words how that went."""

import os
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest

from builder.build import write_build
from builder.errors import RefusedHereError
from builder.rehearsal import rehearse
from builder.spec import RunSpec
from harness.shapes import SHAPES, Case

MODELS = Path(__file__).parents[1] / "models"
GENEROUS_S = 120.0  # the limit is not what these tests are about

HANGS = """
import os, pathlib, time
from torch_transformer_benchmark import BaselineTransformer
pathlib.Path(os.environ["PROOF"]).write_text(str(os.getpid()))
time.sleep(600)
class UserOptimizedTransformer(BaselineTransformer): ...
"""


def kernel_of(folder: Path, model: Path) -> Path:
    """Build the kernel of a model."""
    write_build(RunSpec("smoke", (Case(SHAPES["t02"]),), model_path=str(model)), folder / "built")
    return folder / "built" / "kernel.py"


def test_good_model_passes(tmp_path: Path) -> None:
    """A model that works passes, and the kernel's folder holds no more than before."""
    kernel = kernel_of(tmp_path, MODELS / "with_helper.py")
    before = sorted(kernel.parent.iterdir())
    assert rehearse(kernel, limit_s=GENEROUS_S).outcome == "passed"
    assert sorted(kernel.parent.iterdir()) == before


@pytest.mark.parametrize(
    ("fault", "body", "said"),
    [
        ("raises", "raise RuntimeError('no such op')", "no such op"),
        ("wrong", "return super().forward(x, valid_token_mask) + 1.0", "failed_gate"),
    ],
)
def test_faulty_model_is_refused_with_its_own_error(tmp_path: Path, fault: str, body: str, said: str) -> None:
    """What the case died of is in the refusal, with the model's file and line where there is one."""
    model = tmp_path / f"{fault}.py"
    model.write_text(
        "from torch_transformer_benchmark import BaselineTransformer\n"
        "class UserOptimizedTransformer(BaselineTransformer):\n"
        f"    def forward(self, x, valid_token_mask=None):\n        {body}\n"
    )
    with pytest.raises(RefusedHereError) as caught:
        rehearse(kernel_of(tmp_path, model), limit_s=GENEROUS_S)
    assert said in caught.value.message
    assert "@@" not in caught.value.message
    assert "--no-rehearsal" in caught.value.hint


def test_slow_model_is_ended_with_all_its_processes_and_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the time is up every process of the rehearsal is gone, and the outcome says unfinished."""
    proof = tmp_path / "pid"
    monkeypatch.setenv("PROOF", str(proof))
    model = tmp_path / "hangs.py"
    model.write_text(HANGS)
    kernel = kernel_of(tmp_path, model)
    limit_s = 10.0
    while not proof.exists():
        outcome = rehearse(kernel, limit_s=limit_s)
        assert outcome.outcome == "unfinished"
        assert "nothing failed" in outcome.detail
        limit_s *= 2
        assert limit_s < 200
    assert has_ended(int(proof.read_text()))


def has_ended(pid: int, patience_s: float = 30.0) -> bool:
    """Whether a process is gone within the time: an orphan is only noticed when it is looked at."""
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_interpreter_without_torch_only_checks(tmp_path: Path) -> None:
    """Without torch the kernel is unpacked, verified and compiled, and that is what the outcome says."""
    venv.create(tmp_path / "bare", with_pip=False)
    python = str(tmp_path / "bare" / "bin" / "python")
    assert subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode
    outcome = rehearse(kernel_of(tmp_path, MODELS / "one_file.py"), python)
    assert (outcome.outcome, outcome.detail[:24]) == ("checked", "there is no torch here, ")


def test_altered_kernel_is_refused(tmp_path: Path) -> None:
    """A kernel that does not pass its own check never gets as far as a push."""
    kernel = kernel_of(tmp_path, MODELS / "one_file.py")
    kernel.write_text(kernel.read_text("utf-8").replace("A contest entry", "Another entry"), "utf-8")
    with pytest.raises(RefusedHereError, match="this kernel was altered"):
        rehearse(kernel, sys.executable)
