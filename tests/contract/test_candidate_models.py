"""The candidate models in `tests/models/` run unchanged against a contest script.

`tests/harnesses/independent.py` is that script; each candidate takes the place of its stub, as it does when
a participant pastes it in.
"""

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import tests.harnesses.independent as script

TESTS = Path(__file__).parents[1]
SCRIPT = TESTS / "harnesses" / "independent.py"
CANDIDATES = ("one_file", "own_copy", "package_model", "with_helper")
TINY = "--device=cpu --batch-size=3 --seq-len=9 --d-model=24 --heads=3 --ffn-dim=40 --layers=2"
SHORT = "--accuracy-trials=2 --warmup=1 --repeats=2 --benchmark-rounds=2"
QUICK = f"{TINY} {SHORT}".split()


@pytest.fixture
def run(model_imports: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., int]]:
    """Run the script's `main` with a candidate in place of the stub; returns its exit code."""
    precision = torch.get_float32_matmul_precision()
    monkeypatch.setitem(sys.modules, "torch_transformer_benchmark", script)
    monkeypatch.syspath_prepend(TESTS / "models")

    def run_main(candidate: str, *flags: str) -> int:
        module = importlib.import_module(candidate)
        for name in ("UserOptimizedTransformer", "copy_model_weights"):
            monkeypatch.setattr(script, name, getattr(module, name, getattr(script, name)))
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *QUICK, *flags])
        return script.main()

    yield run_main
    torch.set_float32_matmul_precision(precision)


@pytest.mark.parametrize("padding", [(), ("--padding-ratio", "0.6")], ids=["full", "padded"])
@pytest.mark.parametrize("attention", [("--causal",), ()], ids=["causal", "open"])
@pytest.mark.parametrize("candidate", CANDIDATES)
def test_candidate_passes(
    run: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    candidate: str,
    attention: tuple[str, ...],
    padding: tuple[str, ...],
) -> None:
    """Every candidate passes the script's own gate in each kind of attention, with and without padding."""
    assert run(candidate, *attention, *padding) == 0
    printed = capsys.readouterr().out
    assert printed.count(": PASS | max_abs=") == 3  # two trials and the summary
    assert "based on median latency" in printed


@pytest.mark.parametrize("candidate", CANDIDATES)
def test_candidate_computes_its_own_way(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str], candidate: str
) -> None:
    """No candidate is the baseline in disguise: under a tolerance of nothing each one fails."""
    assert run(candidate, "--causal", "--rtol", "0", "--atol", "0") == 2
    printed = capsys.readouterr().out
    assert ": FAIL | max_abs=" in printed
    assert "speedup" not in printed


def test_script_runs_by_hand() -> None:
    """The contest script runs as a plain program and its stub equals the baseline to the bit."""
    done = subprocess.run(
        [sys.executable, SCRIPT, *QUICK, "--causal"], capture_output=True, text=True, check=True
    )
    assert "summary: PASS | max_abs=0 | max_rel=0 | failed=0/1296" in done.stdout
