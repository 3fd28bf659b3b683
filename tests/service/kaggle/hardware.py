"""What a session's machine may turn out to have, as the file of FERRY_TEST_HARDWARE says it."""

from __future__ import annotations

from typing import Any

# The architectures that the image's torch, built for CUDA 12.8, has code for.
_ARCHES = ["sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]
_IMAGE = {"torch": "2.8.0+cu128", "cuda": "12.8", "arches": _ARCHES}


def cards(name: str, capability: str, memory_mib: int, count: int = 1) -> dict[str, Any]:
    """Return a machine with `count` equal cards and the service's image."""
    card = {"name": name, "capability": capability, "memory_mib": memory_mib, "driver": "570.172.08"}
    return {"cards": [card | {"index": index} for index in range(count)], **_IMAGE}


NOTHING: dict[str, Any] = {"cards": [], **_IMAGE}
ONE_T4 = cards("Tesla T4", "7.5", 15360)
TWO_T4 = cards("Tesla T4", "7.5", 15360, count=2)
# CUDA is there and the card is there, and torch has no code for it.
P100 = cards("Tesla P100-PCIE-16GB", "6.0", 16384)
