"""What a child finds in its environment. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.cards import Card
from harness.shapes import Case

_CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "CUDA_CACHE_PATH")
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")

Setting = tuple[str, tuple[tuple[str, str], ...]]


def for_judge(outer: Mapping[str, str], card: Card, scratch: Path) -> dict[str, str]:
    """Return the environment of a process on `card`: no levers, one card in sight, caches of its own.

    On a CPU it has its share of the cores, and a thread without work sleeps: two neighbours that spin
    while they wait made calls 100 times slower.
    """
    mine = {name: value for name, value in outer.items() if not name.startswith("LEVER_")}
    mine["CUDA_VISIBLE_DEVICES"] = card.pin
    mine |= {name: str(scratch / name.lower()) for name in _CACHES}
    if card.threads:
        mine |= dict.fromkeys(_THREADS, str(card.threads)) | {"OMP_WAIT_POLICY": "PASSIVE"}
    return mine


def for_worker(outer: Mapping[str, str], card: Card, scratch: Path, case: Case) -> dict[str, str]:
    """Return the environment of `case`'s worker: the judge's, with the case's route and levers."""
    route = {} if case.route == "auto" else {"LEVER_ROUTE": case.route}
    return {**for_judge(outer, card, scratch), **case.levers, **route}


def thread_flags(card: Card) -> dict[str, str]:
    """Return what a row says of the card's threads, and of its cores when neighbours have the others."""
    threads = {"threads": str(card.threads), "wait_policy": "passive"} if card.threads else {}
    return {**threads, **({"cores": " ".join(map(str, card.cores))} if card.cores else {})}


def setting_of(case: Case) -> Setting:
    """Return what a worker's environment depends on: cases with the same setting can share a worker."""
    return case.route, tuple(sorted(case.levers.items()))
