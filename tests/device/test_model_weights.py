"""The model's parameters: the contract's names, strict loading, the fused q, k and v, and no side effects."""

from __future__ import annotations

import copy
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from harness.baseline import BaselineTransformer, TransformerConfig, copy_model_weights
from model import OptimizedTransformer, UserOptimizedTransformer, levers, router
from tests.device.model_cases import candidate, inputs, pair, run

pytestmark = pytest.mark.usefixtures("one_thread")
CONFIG = TransformerConfig(2, 16, 32, 4, 40, 2, True)
FOLDER = Path(__file__).parents[2] / "model"


def other_weights() -> dict[str, torch.Tensor]:
    """A state dict that differs from every other in these tests."""
    torch.manual_seed(99)
    return BaselineTransformer(CONFIG).state_dict()


def change_in_place(model: OptimizedTransformer) -> None:
    """Scale a projection as an optimiser would."""
    with torch.no_grad():
        model.blocks[0].attention.k_proj.weight.mul_(3.0)


def change_data(model: OptimizedTransformer) -> None:
    """Write through `.data`, which moves no version counter."""
    model.blocks[1].attention.q_proj.bias.data.add_(1.0)


def replace_parameter(model: OptimizedTransformer) -> None:
    """Put another parameter in the place of one."""
    model.blocks[0].attention.v_proj.weight = nn.Parameter(torch.eye(CONFIG.d_model))


def to_half_and_back(model: OptimizedTransformer) -> None:
    """Round every weight; the dtype at the end is the one at the start."""
    model.half().float()


CHANGES: dict[str, Callable[[OptimizedTransformer], object]] = {
    "load": lambda model: model.load_state_dict(other_weights()),
    "load by assignment": lambda model: model.load_state_dict(other_weights(), assign=True),
    "to float64": lambda model: model.to(torch.float64),
    "to float16 and back": to_half_and_back,
    "in place": change_in_place,
    "through data": change_data,
    "another parameter": replace_parameter,
}


@pytest.mark.parametrize("change", CHANGES)
def test_fused_weights_follow_every_change(change: str) -> None:
    """After any change of the parameters the fused product uses the new ones, as the three products do."""
    _, fused = pair(CONFIG, qkv="fused")
    _, separate = pair(CONFIG, qkv="separate")
    before = run(fused, inputs(CONFIG))
    run(separate, inputs(CONFIG))
    for model in (fused, separate):
        CHANGES[change](model)
    x = inputs(CONFIG).to(fused.final_norm.weight.dtype)
    after = run(fused, x)
    assert (after - run(separate, x)).abs().max() <= 2e-6
    assert not torch.equal(after.float(), before)


def test_a_copy_of_a_model_that_ran_is_independent() -> None:
    """A deep copy has fused weights of its own: changing it leaves the original alone."""
    _, model = pair(CONFIG)
    before = run(model, inputs(CONFIG))
    twin = copy.deepcopy(model)
    twin.load_state_dict(other_weights())
    assert not torch.equal(run(twin, inputs(CONFIG)), before)
    assert torch.equal(run(model, inputs(CONFIG)), before)


def test_fused_weights_are_held_once_and_not_registered() -> None:
    """After a forward q, k and v share one piece of memory, and the state dict has the contract's keys."""
    baseline, model = pair(CONFIG)
    run(model, inputs(CONFIG))
    part = model.blocks[0].attention
    weights = [part.q_proj.weight, part.k_proj.weight, part.v_proj.weight]
    assert len({weight.untyped_storage().data_ptr() for weight in weights}) == 1
    assert list(model.state_dict()) == list(baseline.state_dict())
    for name, value in baseline.state_dict().items():
        assert torch.equal(model.state_dict()[name], value), name


def test_a_model_built_in_inference_mode_runs() -> None:
    """Parameters that are inference tensors load, fuse and run."""
    baseline, _ = pair(CONFIG)
    with torch.inference_mode():
        model = candidate(CONFIG)
        copy_model_weights(baseline, model)
    x = inputs(CONFIG)
    assert (run(model, x) - run(baseline, x)).abs().max() <= 2e-5


def test_strict_loading_refuses_a_missing_and_a_foreign_key() -> None:
    """Strict loading takes the baseline's state dict and no other."""
    model = candidate(CONFIG)
    weights = other_weights()
    missing = {name: value for name, value in weights.items() if name != "final_norm.bias"}
    for wrong in (missing, {**weights, "layers.0.attention.qkv": torch.zeros(1)}):
        with pytest.raises(RuntimeError, match=r"final_norm\.bias|attention\.qkv"):
            model.load_state_dict(wrong, strict=True)
    assert str(model.load_state_dict(weights, strict=True)) == "<All keys matched successfully>"


def test_weights_are_nan_until_loaded() -> None:
    """A model whose weights were never loaded cannot pass for one that computes."""
    assert run(candidate(CONFIG), inputs(CONFIG)).isnan().all()


def test_construction_leaves_the_global_state_alone() -> None:
    """Building the model draws no random number and sets no precision flag."""

    def state() -> list[object]:
        return [
            torch.get_rng_state().tolist(),
            random.getstate(),
            torch.get_float32_matmul_precision(),
            torch.backends.cuda.matmul.allow_tf32,
            torch.backends.cudnn.allow_tf32,
            torch.get_default_dtype(),
            torch.get_default_device(),
            torch.is_grad_enabled(),
            torch.get_num_threads(),
        ]

    for route in ("auto", "eager", "sdpa", "compiled"):
        before = state()
        candidate(CONFIG, route=route)
        assert state() == before, route


def test_the_contest_s_name_is_the_same_class() -> None:
    """`UserOptimizedTransformer` is the model under the contest's name."""
    assert UserOptimizedTransformer is OptimizedTransformer


@pytest.fixture
def alone(tmp_path: Path) -> Callable[[str], str]:
    """Run code where the model's folder stands alone, under another name."""
    shutil.copytree(FOLDER, tmp_path / "entry", ignore=shutil.ignore_patterns("__pycache__"))

    def python(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return python


def test_the_folder_stands_alone(alone: Callable[[str], str]) -> None:
    """The folder runs by itself under any name, for a config that has no more than the contract's fields."""
    code = """
import sys, types, torch
from entry import UserOptimizedTransformer
sizes = dict(batch_size=2, seq_len=5, d_model=8, num_heads=2, ffn_dim=8, num_layers=1, causal=True)
model = UserOptimizedTransformer(types.SimpleNamespace(**sizes))
model.load_state_dict({name: torch.zeros_like(value) for name, value in model.state_dict().items()})
print(model(torch.ones(2, 5, 8), torch.ones(2, 5, dtype=torch.bool)).abs().sum().item())
print(*sorted({"harness", "torch_transformer_benchmark", "triton", "torch._dynamo"} & set(sys.modules)))
"""
    assert alone(code) == "0.0"


def test_levers_and_routes_are_listed_without_torch(alone: Callable[[str], str]) -> None:
    """Listing levers and route names imports neither torch nor a route; a new file is a new name."""
    code = """
import pathlib, sys
pathlib.Path("entry/routes/brand_new.py").write_text("raise SystemExit('imported')")
from entry import levers, router
print(*router.names())
print(*(lever.name for lever in levers.LEVERS))
print("torch" in sys.modules)
"""
    names, known, torch_there = alone(code).splitlines()
    assert set(names.split()) == {"brand_new", *router.names()}
    assert known.split() == [lever.name for lever in levers.LEVERS]
    assert torch_there == "False"
