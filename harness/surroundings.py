"""What holds for all Python code of a process, and slows down whoever runs under it.

Unlike the switches, which are put back for each side, a candidate has no business with any of this.
"""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import overrides
from torch.nn.modules import module as modules
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

TORCH = f"{Path(torch.__file__).parent}/"
_TOOLS = 6  # that sys.monitoring has room for
_HOOKS = [name for name in vars(modules) if name.startswith("_global_") and name.endswith("_hooks")]
_function_mode_stack: Any = vars(overrides)["_get_current_function_mode_stack"]
_getitimer = getattr(signal, "getitimer", None)
_monitoring: Any = getattr(sys, "monitoring", None)


def _callbacks() -> list[object]:
    """The collector's callbacks; torch's own come and go."""
    return [call for call in gc.callbacks if not _file_of(call).startswith(TORCH)]


def _file_of(call: object) -> str:
    return str(getattr(getattr(call, "__code__", None), "co_filename", ""))


def _function_modes() -> list[type]:
    """The modes that see every call of torch; that of a default device is a switch."""
    return [type(mode) for mode in _function_mode_stack() if not isinstance(mode, DeviceContext)]


def _timers() -> list[bool]:
    kinds = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
    return [any(_getitimer(kind)) for kind in kinds] if _getitimer else []


_LOOKS: dict[str, Callable[[], object]] = {
    "the profile function of sys.setprofile": sys.getprofile,
    "the trace function of sys.settrace": sys.gettrace,
    "the profile function of new threads": threading.getprofile,
    "the trace function of new threads": threading.gettrace,
    "the tools of sys.monitoring": lambda: [
        _monitoring.get_tool(number) for number in range(_TOOLS) if _monitoring
    ],
    "the collector's callbacks": _callbacks,
    "torch's profiler": torch._C._autograd._profiler_enabled,
    "the modes that see all calls of torch": _function_modes,
    "the modes that see all of torch's operators": lambda: list(
        map(type, _get_current_dispatch_mode_stack())
    ),
    "the hooks of all modules": lambda: [len(vars(modules)[name] or ()) for name in _HOOKS],
    "the process's interval timers": _timers,
}


def read() -> dict[str, object]:
    """Return how things are, by what people call them."""
    return {name: look() for name, look in _LOOKS.items()}


def changed(before: dict[str, object]) -> list[str]:
    """Return what is not as it was."""
    return [name for name, look in _LOOKS.items() if look() != before[name]]
