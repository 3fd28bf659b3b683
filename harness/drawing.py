"""What judge and worker do alike, so that both hold the same weights: the start of the contest's `main`."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from harness.events import Device
from harness.inputs import altered
from harness.script import resolve_dtype, set_up_torch
from harness.shapes import Case, Settings, parse_settings


@dataclass
class Drawn:
    """The baseline of one case and weight seed, and what it takes to draw its inputs."""

    contract: ModuleType
    case: Case
    settings: Settings
    seed: int
    device: torch.device
    config: Any  # somebody's own harness has a class of its own for it
    baseline: nn.Module

    @property
    def dtype(self) -> torch.dtype:
        """The case's dtype."""
        return resolve_dtype(self.case.dtype)

    def placed(self, model: nn.Module) -> nn.Module:
        """Return the model on the device, in the case's dtype, in evaluation mode."""
        return model.to(self.device, self.dtype).eval()

    def inputs(self, seed: int) -> tuple[Tensor, Tensor]:
        """Return x [B,S,D] and its mask [B,S] for an input seed."""
        x, mask = self.contract.generate_random_case(
            self.config,
            self.device,
            self.dtype,
            seed,
            self.case.shape.padding_ratio,
            self.settings.input_scale,
        )
        return altered(self.case.shape.inputs, x, mask), mask


def draw(contract: ModuleType, case: Case, seed: int, device: torch.device) -> Drawn:
    """Set seeds and precision as the contest's script does, then build the baseline, on the CPU."""
    settings = settings_of_contract(contract, case)
    set_up_torch(replace(settings, seed=seed), device)
    s = case.shape
    config = contract.TransformerConfig(s.batch, s.seq_len, s.d_model, s.heads, s.ffn_dim, s.layers, s.causal)
    with _plain_defaults():
        baseline = contract.BaselineTransformer(config)
    return Drawn(contract, case, settings, seed, device, config, baseline)


def settings_of_contract(contract: ModuleType, case: Case) -> Settings:
    """Return the case's settings with the contract's own defaults: copies of the script differ in them.

    Seed and trials are dealt by the driver, which cannot ask. A contract whose `parse_args` is missing or
    takes other options is used with the pinned script's defaults.
    """
    settings = parse_settings(case.harness_args)
    before = sys.argv
    sys.argv = [before[0], *case.harness_args]
    try:
        own = vars(contract.parse_args())
    except (AttributeError, TypeError, SystemExit):
        return settings
    finally:
        sys.argv = before
    names = ("input_scale", "rtol", "atol", "matmul_precision", "allow_tf32", "non_strict_weight_copy")
    return replace(settings, **{name: own[name] for name in names if name in own})


@contextlib.contextmanager
def _plain_defaults() -> Iterator[None]:
    """Draw in float32 on the CPU, as the judge does, whatever the candidate has made the default."""
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with torch.device("cpu"):
            yield
    finally:
        torch.set_default_dtype(dtype)


def take_device(kind: str) -> torch.device:
    """Return the device after one operation on it: a card that torch cannot use must say so here.

    Raises what torch raises, and RuntimeError when torch sees no GPU at all.
    """
    if kind == "cuda" and not torch.cuda.is_available():
        raise RuntimeError(f"there is a GPU, but torch {torch.__version__} cannot use it (CUDA: no)")
    device = torch.device(kind)
    torch.ones(1, device=device).add_(1).item()
    return device


def describe(device: torch.device) -> Device:
    """Return what torch knows of the device; the card's place in the machine is the driver's to fill in."""
    found = Device(
        -1,
        "cpu",
        torch=torch.__version__,
        triton=_version("triton"),
        cuda=torch.version.cuda or "",
        python=platform.python_version(),
        threads=torch.get_num_threads(),
    )
    if device.type != "cuda":
        return found
    card = torch.cuda.get_device_properties(device)
    capability, memory_mib = f"{card.major}.{card.minor}", card.total_memory // 2**20
    return replace(found, index=0, name=card.name, capability=capability, memory_mib=memory_mib)


def free_memory(device: torch.device) -> None:
    """Give cached device memory back: judge and worker share one card."""
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _version(package: str) -> str:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(package)
    return ""
