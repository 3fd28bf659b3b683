"""The places that one run is dealt over: `--backend kaggle,slurm:short,local`, and what each has room for."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from builder import accelerators, backends, retry
from builder.accelerators import choose_backend, default_accelerator
from builder.backends import Backend, TriesOut
from builder.clock import Clock
from builder.dealing import Place
from builder.errors import InfrastructureError, UsageError
from builder.expecting import Where
from builder.spec import RunSpec

SEPARATOR = ","
START_S = {"local": 5.0, "kaggle": 90.0}  # what a part takes before its first case and after its last
ELSEWHERE_S = 30.0
_TRIES = 2


def names_of(backend: str) -> list[str]:
    """Return the places that a spec's backend names."""
    return [name.strip() for name in backend.split(SEPARATOR)]


def choose(backend: str | None, accelerator: str) -> str:
    """Return the backend of a spec: one name, or several joined by commas.

    Raises UsageError for a name twice, or unknown, and for a place that cannot give the accelerator.
    """
    if not backend or SEPARATOR not in backend:
        return choose_backend(backend, accelerator)
    names = names_of(backend)
    if len(set(names)) < len(names) or not all(names):
        raise UsageError(f"--backend {backend!r} names a place twice, or none", "name each place once")
    return SEPARATOR.join(choose_backend(name, accelerator) for name in names)


def accelerator_of(name: str, spec: RunSpec) -> str:
    """Return what one of a spec's places is asked for."""
    return spec.accelerator or default_accelerator(name)


def where(name: str, spec: RunSpec) -> Where:
    """Return what is known of the device that a case will meet at a place."""
    return Where(name, accelerator_of(name, spec))


@dataclass(frozen=True)
class Known:
    """One of a run's places: its backend, what it has room for, and what is to be said of that."""

    backend: Backend
    place: Place
    said: str = ""

    def outlook(self, spec: RunSpec) -> str:
        """Say when a part of the spec would begin there, if the place can tell."""
        if not isinstance(self.backend, TriesOut):
            return ""
        asked = accelerator_of(self.place.name, spec)
        return self.backend.outlook(asked, spec.devices, self.place.part_s)


def look_at(spec: RunSpec, clock: Clock) -> dict[str, Known]:
    """Ask each place of a spec what it has room for: sessions, cards, quota.

    Raises UsageError where cases are carried by hand, which cannot be dealt while others wait.
    """
    return {name: _look(name, spec, clock) for name in names_of(spec.backend)}


def _look(name: str, spec: RunSpec, clock: Clock) -> Known:
    backend = backends.load(name)
    limits = backend.limits()
    if limits.by_hand and spec.is_dealt:
        raise UsageError(
            f"{name} is carried by hand, so that no run is dealt over it", "push to it by itself, as one part"
        )
    slots, left_s, said = limits.sessions or spec.parts or 1, math.inf, ""
    asked = accelerator_of(name, spec)
    if backend.account() and asked not in ("", "cpu"):
        slots, left_s, said = _of_account(backend, asked, slots, spec.run_id or "none yet", clock)
    slots = min(slots, spec.parts or (slots if SEPARATOR in spec.backend else 1))
    place = Place(
        name,
        slots=slots,
        cards=_cards(asked, spec.devices),
        start_s=START_S.get(name.partition(":")[0], ELSEWHERE_S),
        part_s=spec.timeout_s or limits.session_s,
        left_s=left_s,
    )
    return Known(backend, place, said)


def _of_account(
    backend: Backend, asked: str, slots: int, run_id: str, clock: Clock
) -> tuple[int, float, str]:
    """Return the free sessions and the quota's seconds of an account, and what is to be said of them."""
    resource = "TPU" if asked.startswith("Tpu") else "GPU"
    try:
        quotas = [one for one in retry.read(backend.quota, clock, _TRIES) if one.resource == resource]
        busy = sum(run_id not in one for one in retry.read(backend.active, clock, _TRIES))
    except InfrastructureError as error:
        return slots, math.inf, f"its quota is not known ({error.message})"
    left_s = min((one.left_s for one in quotas), default=math.inf)
    said = [f"{left_s / 3600:.1f} h of {resource} quota left"] if quotas else []
    said += [f"{busy} of {slots} sessions taken"] if busy else []
    return max(1, slots - busy), left_s, ", ".join(said)


def _cards(accelerator: str, devices: int) -> int:
    known = accelerators.lookup(accelerator) if accelerator else None
    there = known.count if known else 1
    return min(there, devices) if devices else there


def totals(places: Iterable[Place]) -> int:
    """Return how many cases run at once when all places are full."""
    return sum(place.slots * place.cards for place in places)
