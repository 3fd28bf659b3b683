"""What the worker sees of a candidate besides its times: output, memory, global flags, aliasing."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from harness.blocks import CROSSING_ELEMENTS, blocks
from harness.serving import RefusedError, is_out_of_memory

T = TypeVar("T")


def synchronize(device: torch.device) -> None:
    """Wait for all that the device still has to do."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


# --- the output -------------------------------------------------------------------------------------------


def checked(output: object, x: Tensor) -> Tensor:
    """Return the candidate's output for x [B,S,D] if it can be gated at all.

    Raises RefusedError: what is no tensor of floating point, has another shape or lies on another device is
    an error. Another floating-point dtype is gated as it is, as in the contest's script. What is more than
    numbers in memory, and may compute when it is read, is disqualified.
    """
    if not isinstance(output, Tensor):
        kind = type(output).__name__
        raise RefusedError("error", "not_a_tensor", f"the candidate returned {kind}, not a tensor")
    if output.shape != x.shape:
        shapes = f"{tuple(output.shape)}, not {tuple(x.shape)}"
        raise RefusedError("error", "wrong_shape", f"the candidate's output has the shape {shapes}")
    if output.device.type != x.device.type:
        devices = f"{output.device.type}, not on {x.device.type}"
        raise RefusedError("error", "wrong_device", f"the candidate's output lies on {devices}")
    if not output.is_floating_point():
        raise RefusedError("error", "wrong_dtype", f"the candidate's output is {dtype_name(output)}")
    if type(output) not in (Tensor, nn.Parameter):
        kind = type(output).__name__
        words = f"the output is a {kind}, which may compute when it is read"
        raise RefusedError("disqualified", "lazy_output", words)
    if output.layout is not torch.strided or (output.numel() and not output.untyped_storage().nbytes()):
        raise RefusedError("disqualified", "lazy_output", "the output has no memory of its own")
    return output


def dtype_name(tensor: Tensor) -> str:
    """Return a tensor's dtype as people and cases name it, such as `float16`."""
    return str(tensor.dtype).removeprefix("torch.")


def hand_over(output: Tensor, folders: Sequence[str]) -> str:
    """Write the output's elements to a file in the first folder with room for it; return the file's path.

    The file is this process's own: a child that the candidate forked would write over it otherwise.
    """
    size = output.numel() * output.element_size()
    for folder in folders:
        path = Path(folder) / f"output-{os.getpid()}.bin"
        if shutil.disk_usage(folder).free > size and _reserved(path, size):
            shared = torch.from_file(str(path), shared=True, size=output.numel(), dtype=output.dtype)
            for block in blocks(output.shape, CROSSING_ELEMENTS):  # a whole copy has no room on a full card
                shared.view(output.shape)[block].copy_(output[block])
            return str(path)
    raise RefusedError("error", "no_room", f"an output of {size} bytes has no room in {' or '.join(folders)}")


def _reserved(path: Path, size: int) -> bool:
    """Whether the file's bytes could be had; writing to a mapping of bytes that cannot is a crash."""
    with contextlib.suppress(OSError), path.open("wb") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)
        return True
    return False


def aliases_output(model: nn.Module, x: Tensor, mask: Tensor) -> bool:
    """Whether two outputs that are both alive share memory, or one shares it with the input."""
    alive = (x, model(x, mask), model(x, mask))
    return len({tensor.untyped_storage().data_ptr() for tensor in alive}) < len(alive)


def unless_out_of_memory(look: Callable[[], T]) -> T | None:
    """Return what `look` returns, or None when there is not enough memory to look."""
    try:
        return look()
    except (MemoryError, RuntimeError) as error:
        if is_out_of_memory(error):
            return None
        raise


# --- memory -----------------------------------------------------------------------------------------------


def reset_peak_memory(device: torch.device) -> None:
    """Begin anew to watch for the peak."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory_mib(device: torch.device) -> float:
    """Return the most memory since the reset: torch's own on a GPU, the whole process's on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# --- global flags -----------------------------------------------------------------------------------------


def precision_state() -> str:
    """Return what changes float32 arithmetic: `high/on/on` = matmul precision, TF32 in cuBLAS, in cuDNN."""
    return "/".join(
        (
            _flag(torch.get_float32_matmul_precision),
            _flag(lambda: torch.backends.cuda.matmul.allow_tf32),
            _flag(lambda: torch.backends.cudnn.allow_tf32),
        )
    )


def _flag(read: Callable[[], object]) -> str:
    try:
        value = read()
    except RuntimeError:  # torch does not say when its old and its new way of setting it were mixed
        return "mixed"
    return str(value) if not isinstance(value, bool) else "on" if value else "off"


def tf32_text(device: torch.device, before: str, after: str) -> str:
    """Return whether float32 products run in TF32: `on`, `off`, or `on>off` when the candidate changed it."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device) < (8, 0):
        return "off"
    states = [state.split("/")[1] for state in (before, after)]
    return states[0] if states[0] == states[1] else ">".join(states)
