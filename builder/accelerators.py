"""What each accelerator name must turn out to be.

Kaggle's names are exact: the service takes any string and silently gives something else for an unknown one.
Elsewhere an accelerator is a pattern of the device's name, `any` GPU, or `cpu`.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from builder import backends
from builder.errors import UsageError

GENERIC = ("any", "cpu")
COMPETITION = "competitions that grant it"


@dataclass(frozen=True)
class Accelerator:
    """A name that a service knows, and what it must turn out to be.

    `device` is what the device's name contains, `count` how many cards come, `capability` the CUDA compute
    capability (empty for what is no GPU), `who` may ask for it. `retired` says what became of a name that
    the service no longer honours, `instead` which one to ask for.
    """

    name: str
    backend: str
    device: str
    count: int
    capability: str = ""
    who: str = ""
    about: str = ""
    retired: str = ""
    instead: str = ""

    @property
    def is_tpu(self) -> bool:
        """Whether it is a TPU, which gpuferry can ask for but measures nothing on."""
        return self.name.startswith("Tpu")


def _kaggle(name: str, device: str, count: int, *rest: str, **more: str) -> Accelerator:
    return Accelerator(name, "kaggle", device, count, *rest, **more)


def _gone(name: str, device: str, became: str, instead: str) -> Accelerator:
    return Accelerator(name, "kaggle", device, 1, who="nobody", retired=became, instead=instead)


KNOWN = {
    accelerator.name: accelerator
    for accelerator in (
        _kaggle("NvidiaTeslaT4", "Tesla T4", 2, "7.5", "verified accounts", "one session, billed once"),
        _kaggle("NvidiaTeslaT4Highmem", "Tesla T4", 1, "7.5", "Kaggle's own staff"),
        _kaggle("NvidiaL4", "NVIDIA L4", 4, "8.9", COMPETITION),
        _kaggle("NvidiaL4X1", "NVIDIA L4", 1, "8.9", COMPETITION),
        _kaggle("NvidiaTeslaA100", "A100", 1, "8.0", COMPETITION),
        _kaggle("NvidiaH100", "H100", 1, "9.0", COMPETITION),
        _kaggle("NvidiaRtxPro6000", "RTX PRO 6000", 1, "12.0", COMPETITION),
        _kaggle("TpuV5E8", "TPU v5e", 8, "", "verified accounts", "no route runs on a TPU"),
        _kaggle("TpuV6E8", "TPU v6e", 8, "", COMPETITION, "no route runs on a TPU"),
        _gone("NvidiaTeslaP100", "P100", "Kaggle gives NvidiaTeslaT4 instead", "NvidiaTeslaT4"),
        _gone("TpuV38", "TPU v3", "Kaggle gives TpuV5E8 instead", "TpuV5E8"),
        _gone("Tpu1VmV38", "TPU v3", "Kaggle gives TpuV5E8 instead", "TpuV5E8"),
        _gone("TpuV232", "TPU v2", "Kaggle gives a CPU instead", "TpuV5E8"),
        _gone("TpuV2256", "TPU v2", "Kaggle gives a CPU instead", "TpuV5E8"),
        _gone("Gpu", "GPU", "an old word for whichever GPU is Kaggle's default", "NvidiaTeslaT4"),
    )
}
_LISTED = "`ferry accelerators` lists them"


def lookup(name: str) -> Accelerator | None:
    """Return the service's accelerator called `name`, or None when it is a pattern for a device's name.

    Raises UsageError for a name that looks like a service's and is none, and for a retired one.
    """
    if accelerator := KNOWN.get(name):
        if accelerator.retired:
            raise UsageError(f"{name} is retired: {accelerator.retired}", f"ask for {accelerator.instead}")
        return accelerator
    if re.match(r"(?:nvidia|tpu|gpu)\S+$", name, re.IGNORECASE):
        raise UsageError(f"no service knows the accelerator {name!r}", f"{_near(name)}{_LISTED}")
    return None


def _near(name: str) -> str:
    """Say which good name somebody may have meant: one with the same card, else one that is spelt alike."""
    good = {known.name.lower(): known.name for known in KNOWN.values() if not known.retired}
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    same = [key for key in good if key == plain]
    cards = [key for key in good if key.removeprefix("nvidia").removeprefix("tesla") in plain]
    alike = difflib.get_close_matches(plain, good, n=1, cutoff=0.4)
    found = next((good[key] for key in (*same, *cards, *alike)), "")
    return f"did you mean {found}? " if found else ""


def choose_backend(backend: str | None, accelerator: str) -> str:
    """Return the backend to use: the one asked for, else the accelerator's owner, else `local`.

    Raises UsageError when there is no such backend and when the two contradict each other.
    """
    known = lookup(accelerator) if accelerator else None
    place = (backend or "").partition(":")[0]
    if backend and place not in backends.names():
        raise UsageError(f"there is no backend {backend!r}", f"backends: {', '.join(backends.names())}")
    if known and backend and place != known.backend:
        raise UsageError(
            f"accelerator {known.name} belongs to {known.backend}, not to backend {backend}",
            f"leave out --backend, or name a device: `--accelerator {known.device.split()[-1].lower()}`",
        )
    if place == "kaggle" and not known and accelerator not in ("", "cpu"):
        raise UsageError(f"Kaggle has no accelerator {accelerator!r}", f"{_near(accelerator)}{_LISTED}")
    return backend or (known.backend if known else "local")


def kaggle_fields(name: str) -> dict[str, bool | str]:
    """Return the settings of a Kaggle kernel that ask for `name`, which never contradict each other.

    The service lets `machine_shape` win over the switches, so both say the same; `cpu` has no shape.
    """
    known = None if name in ("", "cpu") else lookup(name)
    shape = {"machine_shape": known.name} if known and known.backend == "kaggle" else {}
    tpu = known is not None and known.is_tpu
    return {"enable_gpu": bool(shape) and not tpu, "enable_tpu": tpu, **shape}


def default_accelerator(backend: str) -> str:
    """Return what a backend is asked for when nobody says: locally whatever is there, else a GPU."""
    return {"local": "", "kaggle": "NvidiaTeslaT4"}.get(backend.partition(":")[0], "any")
