"""gpuferry's harness and an independently written script of the same contract agree."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

import harness.contract as ours

SCRIPT = Path(__file__).parents[1] / "harnesses" / "independent.py"
CPU = torch.device("cpu")
QUICK = (
    "--device cpu --batch-size 3 --seq-len 7 --d-model 12 --heads 3 --ffn-dim 20 --layers 2 --causal"
    " --padding-ratio 0.5 --accuracy-trials 2 --warmup 1 --repeats 2 --benchmark-rounds 1"
)


@pytest.fixture(scope="module")
def theirs() -> ModuleType:
    """The independent script, imported."""
    spec = importlib.util.spec_from_file_location("independent_script", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_names_and_parameters_agree(theirs: ModuleType) -> None:
    """Every public name is in both, and every function takes the same parameters in the same order."""
    for name in ours.__all__:
        one, other = getattr(ours, name), getattr(theirs, name)
        if inspect.isfunction(one) and name not in ("main", "parse_args"):
            assert list(inspect.signature(one).parameters) == list(inspect.signature(other).parameters)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_inputs_and_outputs_agree_to_the_bit(theirs: ModuleType, causal: bool, dtype: str) -> None:
    """The same seeds give the same weights, inputs, masks and, on a CPU, outputs."""
    outputs = []
    for module in (ours, theirs):
        config = module.TransformerConfig(3, 7, 12, 3, 20, 2, causal)
        torch.manual_seed(1234)
        model = module.BaselineTransformer(config).to(module.resolve_dtype(dtype)).eval()
        x, mask = module.generate_random_case(config, CPU, module.resolve_dtype(dtype), 5, 0.5, 2.0)
        with torch.inference_mode():
            outputs.append((x, mask, model(x, mask), list(model.state_dict().items())))
    for one, other in zip(outputs[0][:3], outputs[1][:3], strict=True):
        assert torch.equal(one, other)
    for (key, value), (other_key, other_value) in zip(outputs[0][3], outputs[1][3], strict=True):
        assert key == other_key and torch.equal(value, other_value)


def test_the_figures_of_a_comparison_agree(theirs: ModuleType) -> None:
    """One comparison with passing and failing elements gives the same counts and errors."""
    generator = torch.Generator().manual_seed(2)
    reference = torch.randn(3, 7, 12, generator=generator)
    optimized = reference + 0.004 * torch.randn(3, 7, 12, generator=generator)
    one = ours.compare_outputs(reference, optimized, 0.02, 0.002)
    other = theirs.compare_outputs(reference, optimized, 0.02, 0.002)
    assert 0 < one.failed_elements < one.total_elements
    for field in ("passed", "total_elements", "failed_elements", "max_abs_error", "worst_index"):
        assert getattr(one, field) == getattr(other, field)
    assert list(one.failed_feature_dims) == list(other.failed_feature_dims)
    assert one.max_relative_error == pytest.approx(other.max_relative_error)
    assert one.mean_abs_error == pytest.approx(other.mean_abs_error)


def test_the_printed_lines_agree(
    theirs: ModuleType,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    model_imports: None,
) -> None:
    """Trial and summary lines are the same text, timing lines the same but for the times."""
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *QUICK.split()])
    assert theirs.main() == 0
    expected = _protocol_lines(capsys.readouterr().out)
    exact = SCRIPT.parents[1] / "models" / "exact.py"
    assert ours.main([*QUICK.split(), "--model", str(exact)]) == 0
    assert _protocol_lines(capsys.readouterr().out) == expected
    assert len(expected) == 6


def _protocol_lines(printed: str) -> list[str]:
    kinds = ("trial ", "summary: ", "baseline : ", "optimized: ", "speedup  : ")
    lines = [line for line in printed.splitlines() if line.startswith(kinds)]
    return [re.sub(r"\d+\.\d{2,}", "N", line) for line in lines]
