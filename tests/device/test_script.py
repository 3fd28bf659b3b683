"""The contest's script: flags, order of events, printed lines, exit codes."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import harness.contract
from harness.candidate import CONTRACT
from harness.script import main, maybe_compile, parse_args, resolve_device, resolve_dtype, validate_args
from harness.shapes import Settings, settings_of

ROOT = Path(__file__).parents[2]
ONE_FILE = ROOT / "tests" / "models" / "one_file.py"
QUICK = shlex.split(
    "--device cpu --batch-size 2 --seq-len 5 --d-model 8 --heads 2 --ffn-dim 12 --layers 1 --causal"
    " --accuracy-trials 2 --warmup 1 --repeats 2 --benchmark-rounds 2"
)
MODEL = """
import torch
from torch_transformer_benchmark import BaselineTransformer

class UserOptimizedTransformer(BaselineTransformer):
    def __init__(self, config):
        {constructor}
        super().__init__(config)

    def forward(self, x, valid_token_mask=None):
        y = super().forward(x, valid_token_mask)
        {forward}
        return y
"""


@pytest.fixture(autouse=True)
def _precision_is_kept(model_imports: None) -> Iterator[None]:
    precision = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(precision)


def _model(folder: Path, constructor: str = "pass", forward: str = "pass") -> list[str]:
    file = folder / f"{folder.name}_model.py"
    file.write_text(MODEL.format(constructor=constructor, forward=forward))
    return ["--model", str(file)]


def _run(*flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-m", "harness", *QUICK, *flags]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_defaults_are_the_contest_s() -> None:
    """No flag at all gives the contest's values, and gpuferry's own model."""
    assert vars(parse_args([])) == {
        "model": None,
        "batch_size": 8,
        "seq_len": 128,
        "d_model": 512,
        "heads": 8,
        "ffn_dim": 2048,
        "layers": 6,
        "causal": False,
        "device": "auto",
        "dtype": "float32",
        "padding_ratio": 0.0,
        "input_scale": 1.0,
        "accuracy_trials": 5,
        "rtol": 0.02,
        "atol": 0.002,
        "seed": 1234,
        "warmup": 20,
        "repeats": 100,
        "benchmark_rounds": 3,
        "benchmark_on_failure": False,
        "compile_baseline": False,
        "compile_user": False,
        "compile_mode": "default",
        "non_strict_weight_copy": False,
        "matmul_precision": "high",
        "allow_tf32": True,
    }


def test_the_settings_are_taken_out_of_the_flags() -> None:
    """The flags that are no part of a case land in `Settings`."""
    assert settings_of(parse_args([])) == Settings()
    flags = ["--seed", "3", "--no-allow-tf32", "--non-strict-weight-copy"]
    assert settings_of(parse_args(flags)) == Settings(seed=3, allow_tf32=False, non_strict_weight_copy=True)


@pytest.mark.parametrize("flags", [["--layers", "x"], ["--dtype", "float64"], ["--compile-mode", "fast"]])
def test_a_bad_flag_exits_2(flags: list[str]) -> None:
    """What argparse refuses exits 2, as a failed gate does."""
    with pytest.raises(SystemExit) as caught:
        parse_args(flags)
    assert caught.value.code == 2


@pytest.mark.parametrize(
    "flags",
    ["--accuracy-trials 0", "--repeats 0", "--benchmark-rounds 0", "--warmup -1", "--rtol -1", "--atol -1"],
)
def test_a_value_that_makes_no_run_is_an_error(flags: str) -> None:
    """Counts must be positive and tolerances not negative."""
    with pytest.raises(ValueError, match="must"):
        validate_args(parse_args(flags.split()))


def test_padding_is_a_share() -> None:
    """A padding ratio beyond 0 to 1 is an error."""
    validate_args(parse_args(["--padding-ratio", "1"]))
    with pytest.raises(ValueError, match="between 0 and 1"):
        validate_args(parse_args(["--padding-ratio", "1.5"]))


def test_devices_and_dtypes_by_name() -> None:
    """`auto` takes CUDA if there is any; three dtypes have a name."""
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert resolve_device("cpu") == torch.device("cpu")
    assert [resolve_dtype(name) for name in ("float32", "float16", "bfloat16")] == [
        torch.float32,
        torch.float16,
        torch.bfloat16,
    ]
    with pytest.raises(ValueError, match="'float64' is none of float32"):
        resolve_dtype("float64")


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's compiler uses it itself
def test_a_model_is_compiled_only_when_enabled() -> None:
    """Disabled, the model comes back itself; enabled, a wrapper with its weights."""
    model = torch.nn.Linear(2, 2)
    assert maybe_compile(model, False, "default") is model
    compiled = maybe_compile(model, True, "default")
    assert compiled is not model
    assert next(compiled.parameters()) is model.weight


def test_a_run_prints_the_contest_s_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """The model's file and hash come first, then setting, trials, summary, two timings, the speedup."""
    assert main([*QUICK, "--model", str(ONE_FILE)]) == 0
    lines = capsys.readouterr().out.splitlines()
    patterns = (
        rf"model    : {re.escape(str(ONE_FILE))} sha256=[0-9a-f]{{64}}",
        r"config   : TransformerConfig\(batch_size=2, seq_len=5, d_model=8, num_heads=2, .*causal=True\)",
        r"device   : cpu \| dtype=float32 \| torch=\S+",
        r"trial 01/2: PASS \| max_abs=\S+ \| max_rel=\S+ \| failed=0/80",
        r"trial 02/2: PASS \| max_abs=\S+ \| max_rel=\S+ \| failed=0/80",
        r"summary: PASS \| max_abs=\S+ \| max_rel=\S+ \| failed=0/160",
        r"baseline : median=.* token/s",
        r"optimized: median=.* token/s",
        r"speedup  : .*x based on median latency",
    )
    assert len(lines) == len(patterns)
    for line, pattern in zip(lines, patterns, strict=True):
        assert re.fullmatch(pattern, line), line


def test_the_candidate_s_random_draws_do_not_change_the_baseline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A constructor that draws numbers still gets the seed's baseline weights, to the bit."""
    dump = tmp_path / "weights.pt"
    forward = f"torch.save(self.state_dict(), {str(dump)!r})"
    assert main([*QUICK, *_model(tmp_path, constructor="torch.randn(100)", forward=forward)]) == 0
    torch.manual_seed(1234)
    expected = harness.contract.BaselineTransformer(
        harness.contract.TransformerConfig(2, 5, 8, 2, 12, 1, True)
    ).state_dict()
    copied = torch.load(dump)
    assert copied.keys() == expected.keys()
    assert all(torch.equal(copied[key], expected[key]) for key in expected)
    assert "max_abs=0 |" in capsys.readouterr().out


def test_a_model_runs_in_the_dtype_and_in_eval_mode(tmp_path: Path) -> None:
    """Both models are moved after the copy and are in evaluation mode."""
    forward = "assert not self.training and y.dtype == self.final_norm.weight.dtype == torch.bfloat16"
    assert main([*QUICK, "--dtype", "bfloat16", *_model(tmp_path, forward=forward)]) == 0


def test_a_failed_gate_exits_2_without_timing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong model exits 2 and is not timed, or is timed on demand and still exits 2."""
    model = _model(tmp_path, forward="y = y + 0.01 + 0.04 * y.abs()")
    assert main([*QUICK, *model]) == 2
    printed = capsys.readouterr().out
    assert "summary: FAIL" in printed and "speedup" not in printed
    assert main([*QUICK, *model, "--benchmark-on-failure"]) == 2
    assert "speedup  :" in capsys.readouterr().out


def test_a_non_strict_copy_lets_extra_parameters_pass(tmp_path: Path) -> None:
    """A parameter of the candidate's own fails the strict copy and passes the other."""
    model = _model(tmp_path)
    file = Path(model[1])
    file.write_text(
        file.read_text().replace(
            "super().__init__(config)",
            "super().__init__(config); self.extra = torch.nn.Parameter(torch.zeros(1))",
        )
    )
    with pytest.raises(RuntimeError, match="extra"):
        main([*QUICK, *model])
    assert main([*QUICK, *model, "--non-strict-weight-copy"]) == 0


def test_the_matmul_precision_is_set() -> None:
    """The flag reaches torch before the models run."""
    main([*QUICK, "--model", str(ONE_FILE), "--matmul-precision", "medium"])
    assert torch.get_float32_matmul_precision() == "medium"


def test_by_hand_a_passing_model_exits_0() -> None:
    """`python -m harness` runs a contest-style model file that has its own weight copy."""
    done = _run("--model", "tests/models/own_copy.py", "--padding-ratio", "0.5")
    assert (done.returncode, done.stderr) == (0, "")
    assert "summary: PASS" in done.stdout and "speedup  :" in done.stdout


def test_by_hand_a_missing_model_exits_1_with_a_traceback() -> None:
    """A model file that is not there is an error and never the stub."""
    done = _run("--model", "nowhere.py")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Traceback") and "there is no model file" in done.stderr


def test_by_hand_a_failed_gate_exits_2(tmp_path: Path) -> None:
    """The process's exit code is the script's."""
    done = _run(*_model(tmp_path, forward="y = y * 1.5"), "--device", "cpu")
    assert done.returncode == 2
    assert "summary: FAIL" in done.stdout


def test_the_contract_exports_exactly_its_public_names() -> None:
    """`from harness.contract import *` gives the contest's 21 names and nothing of gpuferry's own."""
    names: dict[str, object] = {}
    exec("from harness.contract import *", names)
    del names["__builtins__"]
    assert sorted(names) == harness.contract.__all__
    assert set(names) == set(
        shlex.split(
            "TransformerConfig BaselineSelfAttention BaselineTransformerBlock BaselineTransformer"
            " UserOptimizedTransformer copy_model_weights resolve_device resolve_dtype generate_random_case"
            " AccuracyResult compare_outputs run_accuracy_tests percentile TimingResult warmup_model"
            " benchmark_once benchmark_models maybe_compile parse_args validate_args main"
        )
    )


def test_importing_the_contract_changes_no_global_state() -> None:
    """The import draws no numbers, sets no precision and does not take the contest's name."""
    code = (
        "import sys, torch\nbefore = torch.get_rng_state(), torch.get_float32_matmul_precision()\n"
        f"import harness.contract\nassert {CONTRACT!r} not in sys.modules\n"
        "assert torch.equal(before[0], torch.get_rng_state())\n"
        "assert before[1] == torch.get_float32_matmul_precision()\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, check=True)
