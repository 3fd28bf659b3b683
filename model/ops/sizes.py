"""How work is cut into programs, and what a device has to run them."""

from __future__ import annotations

import functools

import torch


def blocks(whole: int, block: int) -> int:
    """How many blocks cover the whole."""
    return -(-whole // block)


def power_of_two(least: int) -> int:
    """The smallest power of two that is no less."""
    return 1 << (least - 1).bit_length()


@functools.cache
def processors(device: torch.device) -> int:
    """How many programs a device runs at once at least."""
    if device.type != "cuda":
        return 2
    return torch.cuda.get_device_properties(device).multi_processor_count


@functools.cache
def is_hopper(device: torch.device) -> bool:
    """Whether the device has the tensor-core instructions that read shared memory."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] == 9
