"""What each accelerator name must turn out to be.

Kaggle's names are exact: the service takes any string and silently gives something else for an unknown one.
Elsewhere an accelerator is a pattern of the device's name, `any` GPU, or `cpu`.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from builder import backends
from builder.errors import UsageError

GENERIC = ("any", "cpu")


@dataclass(frozen=True)
class Accelerator:
    """A name that a service knows: which backend owns it, what the device's name contains, how many come.

    `retired` says what became of a name that the service no longer honours.
    """

    name: str
    backend: str
    device: str
    count: int
    about: str
    retired: str = ""


KNOWN = {
    accelerator.name: accelerator
    for accelerator in (
        Accelerator("NvidiaTeslaT4", "kaggle", "Tesla T4", 2, "two T4 in one session, billed once"),
        Accelerator("NvidiaL4", "kaggle", "NVIDIA L4", 4, "competitions that grant it"),
        Accelerator("NvidiaL4X1", "kaggle", "NVIDIA L4", 1, "competitions that grant it"),
        Accelerator("NvidiaTeslaA100", "kaggle", "A100", 1, "competitions that grant it"),
        Accelerator("NvidiaH100", "kaggle", "H100", 1, "competitions that grant it"),
        Accelerator("NvidiaTeslaP100", "kaggle", "P100", 1, "", retired="Kaggle gives NvidiaTeslaT4 instead"),
    )
}


def lookup(name: str) -> Accelerator | None:
    """Return the service's accelerator called `name`, or None when it is a pattern for a device's name.

    Raises UsageError for a name that looks like a service's and is none, and for a retired one.
    """
    if accelerator := KNOWN.get(name):
        if accelerator.retired:
            raise UsageError(f"{name} is retired: {accelerator.retired}", "`ferry accelerators` lists them")
        return accelerator
    if not name.lower().startswith(("nvidia", "tpu", "gpu")):
        return None
    near = difflib.get_close_matches(name, [a.name for a in KNOWN.values() if not a.retired], n=1, cutoff=0.4)
    hint = f"did you mean {near[0]}? " if near else ""
    raise UsageError(f"no service knows the accelerator {name!r}", f"{hint}`ferry accelerators` lists them")


def choose_backend(backend: str | None, accelerator: str) -> str:
    """Return the backend to use: the one asked for, else the accelerator's owner, else `local`.

    Raises UsageError when there is no such backend and when the two contradict each other.
    """
    known = lookup(accelerator) if accelerator else None
    places = sorted({*backends.names(), *(owner.backend for owner in KNOWN.values())})
    if backend and backend.partition(":")[0] not in places:
        raise UsageError(f"there is no backend {backend!r}", f"backends: {', '.join(backends.names())}")
    if known and backend and backend.partition(":")[0] != known.backend:
        raise UsageError(
            f"accelerator {known.name} belongs to {known.backend}, not to backend {backend}",
            f"leave out --backend, or name a device: `--accelerator {known.device.split()[-1].lower()}`",
        )
    return backend or (known.backend if known else "local")


def default_accelerator(backend: str) -> str:
    """Return what a backend is asked for when nobody says: locally whatever is there, else a GPU."""
    return {"local": "", "kaggle": "NvidiaTeslaT4"}.get(backend.partition(":")[0], "any")
