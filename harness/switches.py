"""Torch's process-wide switches, so that each side of a comparison runs under its own.

A candidate may set them, at import, in its constructor or in a call; the baseline must not run any slower or
coarser for it. The order of the table is the order of setting: a precision by its old name comes before the
same one by its new name, which has the last word.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch

State = Mapping[str, Any]

_MISSING = (AttributeError, RuntimeError, TypeError)  # an older torch; old and new ways of setting mixed


def _attribute(path: str) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """Return how to read and set what stands at a dotted path under `torch.backends`."""
    *holders, name = path.split(".")

    def holder() -> Any:
        found: Any = torch.backends
        for step in holders:
            found = getattr(found, step)
        return found

    return lambda: getattr(holder(), name), lambda value: setattr(holder(), name, value)


def _set_anomaly_mode(on: bool) -> None:
    torch.autograd.set_detect_anomaly(on)


def _default_device() -> str | None:
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return None if context is None else str(context.device)


_SWITCHES: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "matmul_precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    **{
        path: _attribute(path)
        for path in (
            "cuda.matmul.allow_tf32",
            "cudnn.allow_tf32",
            "cuda.matmul.fp32_precision",
            "cudnn.conv.fp32_precision",
            "cudnn.rnn.fp32_precision",
            "mkldnn.matmul.fp32_precision",
            "cuda.matmul.allow_fp16_reduced_precision_reduction",
            "cuda.matmul.allow_bf16_reduced_precision_reduction",
            "cuda.matmul.allow_fp16_accumulation",
            "cudnn.enabled",
            "cudnn.benchmark",
            "cudnn.deterministic",
            "mkldnn.enabled",
        )
    },
    "deterministic": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
    "flash_sdp": (torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp),
    "mem_efficient_sdp": (
        torch.backends.cuda.mem_efficient_sdp_enabled,
        torch.backends.cuda.enable_mem_efficient_sdp,
    ),
    "math_sdp": (torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp),
    "cudnn_sdp": (torch.backends.cuda.cudnn_sdp_enabled, torch.backends.cuda.enable_cudnn_sdp),
    "threads": (torch.get_num_threads, torch.set_num_threads),
    "cores": (lambda: os.sched_getaffinity(0), lambda cores: os.sched_setaffinity(0, cores)),
    "collector": (gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
    "collector_threshold": (gc.get_threshold, lambda counts: gc.set_threshold(*counts)),
    "thread_turns": (sys.getswitchinterval, sys.setswitchinterval),
    "anomaly_mode": (torch.is_anomaly_enabled, _set_anomaly_mode),
    "default_device": (_default_device, torch.set_default_device),
    "default_dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "grad": (torch.is_grad_enabled, torch._C._set_grad_enabled),
    "autocast": (
        lambda: torch.is_autocast_enabled("cuda"),
        lambda on: torch.set_autocast_enabled("cuda", on),
    ),
    "cpu_autocast": (
        lambda: torch.is_autocast_enabled("cpu"),
        lambda on: torch.set_autocast_enabled("cpu", on),
    ),
}


def read() -> State:
    """Return the state of every switch that this torch has and can read."""
    state = {}
    for name, (get, _) in _SWITCHES.items():
        try:
            state[name] = get()
        except _MISSING:
            continue
    return state


def put(state: State) -> list[str]:
    """Put the switches as they were read; return the names of those that would not go.

    Costs nothing but the reading of those that stand so already: setting some has torch import its compiler,
    which takes seconds.
    """
    for name, (get, set_to) in _SWITCHES.items():
        if name in state and not _stands(get, state[name]):
            with contextlib.suppress(*_MISSING):
                set_to(state[name])
    return changed(state, read())


def _stands(get: Callable[[], Any], value: object) -> bool:
    try:
        return bool(get() == value)
    except _MISSING:
        return False


def changed(before: State, after: State) -> list[str]:
    """Return the names of the switches that differ."""
    return [name for name in _SWITCHES if before.get(name) != after.get(name)]
