"""gpuferry's harness and an independently written script of the same contract agree to the bit."""

import dataclasses
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

import harness.contract as ours
import tests.harnesses.independent as theirs

SIZES = (3, 11, 24, 3, 40, 2)
QUICK = (
    "--device cpu --batch-size 3 --seq-len 7 --d-model 12 --heads 3 --ffn-dim 20 --layers 2 --causal"
    " --padding-ratio 0.5 --accuracy-trials 2 --warmup 1 --repeats 2 --benchmark-rounds 1"
)
MODELS = Path(__file__).parents[1] / "models"
NAN, INF = float("nan"), float("inf")
# Pairs of a reference and an output at the edges of the gate, under atol 0.002 and rtol 0.02.
EDGES = [
    (0.0, 0.002),
    (0.0, 0.0020001),
    (1.0, 1.02),
    (1.0, 1.0201),
    (-1.0, -0.98),
    (0.05, 0.052),
    (1e-20, 0.0019),
    (1e-20, -0.0021),
    (3e38, 3.05e38),
    (-3e38, 3e38),
    (1.0, 1.0),
    (0.0, -0.0),
]
NOT_FINITE = [(NAN, NAN), (1.0, NAN), (NAN, 1.0), (INF, INF), (-INF, INF), (1.0, -INF), (INF, 1.0)]


def baseline(of: ModuleType, causal: bool, dtype: torch.dtype = torch.float32) -> nn.Module:
    """One writing's baseline, drawn from a fixed seed."""
    torch.manual_seed(1234)
    model: nn.Module = of.BaselineTransformer(of.TransformerConfig(*SIZES, causal))
    return model.to(dtype).eval()


def draw(
    of: ModuleType, padding: float, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, torch.Tensor]:
    """One writing's input and mask, drawn from a fixed seed."""
    config = of.TransformerConfig(*SIZES, True)
    x, valid = of.generate_random_case(config, torch.device("cpu"), dtype, 77, padding, 1.5)
    return x, valid


def test_public_names_take_the_same_arguments() -> None:
    """Every function of the contract has the same parameters, by name and order, in both writings."""
    for name in ours.__all__:
        mine, other = getattr(ours, name), getattr(theirs, name)
        if inspect.isfunction(mine) and name not in {"main", "parse_args"}:
            assert list(inspect.signature(mine).parameters) == list(inspect.signature(other).parameters), name


def test_weights_are_the_same() -> None:
    """The same seed gives the same parameters under the same names in the same order."""
    mine, other = baseline(ours, True).state_dict(), baseline(theirs, True).state_dict()
    assert list(mine) == list(other)
    assert all(torch.equal(mine[name], other[name]) for name in mine)


@pytest.mark.parametrize("padding", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_inputs_are_the_same(padding: float, dtype: torch.dtype) -> None:
    """The same seed gives the same input and the same mask."""
    assert all(map(torch.equal, draw(ours, padding, dtype), draw(theirs, padding, dtype)))


@pytest.mark.parametrize("padding", [0.0, 0.6])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_outputs_are_the_same(causal: bool, padding: float, dtype: torch.dtype) -> None:
    """Both baselines compute the same output, bit for bit."""
    with torch.inference_mode():
        mine = baseline(ours, causal, dtype)(*draw(ours, padding, dtype))
        other = baseline(theirs, causal, dtype)(*draw(theirs, padding, dtype))
    assert torch.equal(mine, other)


@pytest.mark.parametrize("pairs", [EDGES, *([edge] for edge in EDGES), *([pair] for pair in NOT_FINITE)])
def test_gates_find_the_same(pairs: list[tuple[float, float]]) -> None:
    """Both gates say the same at the edges of the rule and about numbers that are not finite."""
    reference, output = torch.tensor(pairs).T.unsqueeze(1)
    mine = dataclasses.astuple(ours.compare_outputs(reference, output, 0.02, 0.002))
    other = tuple(theirs.compare_outputs(reference, output, 0.02, 0.002))
    assert [*map(str, mine[:3]), *mine[6:8]] == [*map(str, other[:3]), *other[6:8]]
    assert mine[3:6] == pytest.approx(other[3:6], rel=1e-6)
    assert mine[8:] == pytest.approx(other[8:], nan_ok=True)


@pytest.mark.parametrize("count", [1, 2, 3, 10, 299])
def test_statistics_are_the_same(count: int) -> None:
    """Mean, median, 90th percentile and minimum agree for short and long lists."""
    times = [(i * 7919 % 1009) / 17 for i in range(count)]
    mine, other = ours.TimingResult(times), theirs.TimingResult(times)
    for name in ("mean_ms", "median_ms", "p90_ms", "min_ms"):
        assert getattr(mine, name) == pytest.approx(getattr(other, name)), name
    for q in (0, 0.125, 0.5, 0.9, 1):
        assert ours.percentile(times, q) == pytest.approx(theirs.percentile(times, q)), q


def test_printed_lines_are_the_same(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, model_imports: None
) -> None:
    """Trial and summary lines are the same text, timing lines the same but for the times."""
    monkeypatch.setattr(sys, "argv", ["independent.py", *QUICK.split()])
    assert theirs.main() == 0
    expected = protocol_lines(capsys.readouterr().out)
    assert ours.main([*QUICK.split(), "--model", str(MODELS / "exact.py")]) == 0
    assert protocol_lines(capsys.readouterr().out) == expected
    assert len(expected) == 6


def protocol_lines(printed: str) -> list[str]:
    """The lines that the contract describes, with each measured time as N."""
    kinds = ("trial ", "summary: ", "baseline : ", "optimized: ", "speedup  : ")
    lines = [line for line in printed.splitlines() if line.startswith(kinds)]
    return [re.sub(r"\d+\.\d{2,}", "N", line) for line in lines]
