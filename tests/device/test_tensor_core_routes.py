"""The routes of Triton ops through the whole model, interpreted on a CPU; and what they refuse."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from harness.baseline import TransformerConfig
from model.routes import _tensor_cores
from tests.device.interpreter import Interpreter, interpreter
from tests.device.model_cases import inputs, mask_of, pair, run

__all__ = ["interpreter"]
NARROW = TransformerConfig(3, 9, 16, 1, 16, 1, True)
ROUTES = ("stack", "wide")
PROJECT = Path(__file__).parents[2]


class Ran(NamedTuple):
    """What a forward reported, its error, and whether x and mask were left alone and the output is fresh."""

    route: str
    note: str
    max_abs: float
    clean: bool


def forwards(
    config: TransformerConfig, kinds: tuple[str, ...], dtype: torch.dtype = torch.float32, **levers: str
) -> list[Ran]:
    """A forward for each kind of mask, by one model."""
    baseline, model = pair(config, dtype, **levers)
    return [_forward(config, kind, baseline, model, dtype) for kind in kinds]


def _forward(config: TransformerConfig, kind: str, baseline, model, dtype) -> Ran:  # type: ignore[no-untyped-def]
    x, mask = inputs(config, dtype), mask_of(kind, config)
    x_before, mask_before = x.clone(), mask_of(kind, config)
    first, second = run(model, x, mask), run(model, x, mask)
    same = torch.equal(x, x_before) and (
        mask is None or mask_before is None or torch.equal(mask, mask_before)
    )
    fresh = len({t.untyped_storage().data_ptr() for t in (x, first, second)}) == 3
    error = float((first.float() - run(baseline.float(), x.float(), mask)).abs().max())
    baseline.to(dtype)
    return Ran(model.route_ran, model.route_note, error, same and fresh and torch.equal(first, second))


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("causal", [True, False])
def test_it_runs_as_asked(interpreter: Interpreter, route: str, causal: bool) -> None:
    """By its own name a route runs itself, within float32's error, for one mask after the other."""
    config = dataclasses.replace(NARROW, causal=causal)
    for ran in interpreter(_named, config, ("none", "holes"), route):
        assert (ran.route, ran.note, ran.clean) == (route, "", True)
        assert ran.max_abs <= 2e-5


def _named(
    config: TransformerConfig, kinds: tuple[str, ...], route: str, precision: str = "safe"
) -> list[Ran]:
    return forwards(config, kinds, route=route, precision=precision)


@pytest.mark.parametrize("route", ROUTES)
def test_precision_is_a_lever(interpreter: Interpreter, route: str) -> None:
    """Under `fp16` the error is of float16's class, and no longer of float32's."""
    [ran] = interpreter(_named, NARROW, ("prefix",), route, "fp16")
    assert 2e-5 < ran.max_abs < 4e-3


def test_half_inputs_are_served(interpreter: Interpreter) -> None:
    """In float16 the output's own rounding is what is left."""
    [ran] = interpreter(_half, NARROW)
    assert (ran.route, ran.note) == ("wide", "")
    assert ran.max_abs <= 5e-3


def _half(config: TransformerConfig) -> list[Ran]:
    return forwards(config, ("prefix",), torch.float16, route="wide")


@pytest.mark.parametrize("route", ROUTES)
def test_changed_weights_are_seen(interpreter: Interpreter, route: str) -> None:
    """After weights are changed in place, and after they are replaced, the output is theirs."""
    assert max(interpreter(_after_changes, NARROW, route)) <= 2e-5


def _after_changes(config: TransformerConfig, route: str) -> list[float]:
    baseline, model = pair(config, route=route)
    x, errors = inputs(config), []
    run(model, x)
    for change in ("scale", "load"):
        with torch.no_grad():
            if change == "scale":
                for parameters in (baseline.parameters(), model.parameters()):
                    for parameter in parameters:
                        parameter.mul_(1.5)
            else:
                other, _ = pair(dataclasses.replace(config, batch_size=2))
                baseline.load_state_dict(other.state_dict())
                model.load_state_dict(other.state_dict())
        errors.append(float((run(model, x) - run(baseline, x)).abs().max()))
    return errors


def test_weights_beyond_float16_are_sdpas(interpreter: Interpreter) -> None:
    """Where an operand may overflow the output is sdpa's to the bit, and the note names the operand."""
    same, route, note = interpreter(_overflowing, NARROW)
    assert same and route == "sdpa"
    assert note.startswith("v may reach") and "float16 ends at 65504" in note


def _overflowing(config: TransformerConfig) -> tuple[bool, str, str]:
    outputs = []
    for route in ("sdpa", "wide"):
        _, model = pair(config, route=route)
        with torch.no_grad():
            model.blocks[0].attention.v_proj.weight.mul_(1e6)
        outputs.append(run(model, inputs(config)))
    return torch.equal(*outputs), model.route_ran, model.route_note


@pytest.mark.parametrize("route", ROUTES)
def test_without_a_gpu_it_is_sdpa(route: str) -> None:
    """On a CPU the output is sdpa's to the bit, and the note says what is missing."""
    (_, model), (_, plain) = pair(NARROW, route=route), pair(NARROW, route="sdpa")
    x = inputs(NARROW)
    assert torch.equal(run(model, x), run(plain, x))
    assert model.route_ran == "sdpa"
    assert model.route_note in ("needs a CUDA GPU", "needs Triton")


@pytest.mark.parametrize(
    ("triton", "capability", "why"),
    [
        (None, (9, 0), "needs Triton"),
        (object(), (7, 5), "needs capability 8.0, this is 7.5"),
        (object(), (8, 0), ""),
    ],
)
def test_what_a_device_lacks_is_said(
    triton: object, capability: tuple[int, int], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No Triton and an old card are refused in words; a card with the tensor cores that it needs is not."""
    monkeypatch.setattr(_tensor_cores, "find_spec", lambda name: triton)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert _tensor_cores.device_refusal.__wrapped__(torch.device("cuda", 0)) == why


UNIMPORTED = """
import sys
from harness.baseline import TransformerConfig
from tests.device.model_cases import inputs, pair, run
before = "triton" in sys.modules
config = TransformerConfig(1, 4, 8, 1, 8, 1, True)
for route in ("auto", "fp16", "stack", "wide"):
    run(pair(config, route=route)[1], inputs(config))
print(before, "triton" in sys.modules)
"""


def test_a_cpu_never_imports_triton() -> None:
    """No choice and no route of Triton's ops imports it where it cannot run."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", UNIMPORTED],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    before, after = done.stdout.split()
    assert after == before
