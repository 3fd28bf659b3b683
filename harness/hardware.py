"""The first check: what hardware really came, against what was asked for. Standard library only.

nvidia-smi comes first and needs no torch: a wrong name is found in a second. Only then a child asks torch
whether it can use the cards and has code for them. Nothing falls back to the CPU unasked.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.cards import Card, apart, chosen, cpu_cards, cpu_name, total_memory
from harness.cores import cores_here
from harness.events import SIMULATED, Device, Hardware, Order, Terms
from harness.senses import Senses, TorchView

_MIB = 2**20
_SHOWN = 4


@dataclass(frozen=True)
class Machine:
    """What was found: the cards to work on, those that came, and the record of both."""

    cards: tuple[Card, ...]
    came: tuple[Card, ...]
    record: Hardware


def examine(order: Order, senses: Senses, online: bool) -> Machine:
    """Look at the machine and choose its cards; a probe asks torch whatever came, and the network."""
    terms = order.terms
    gpus, view = _look(order, senses)
    cards = [] if terms.asked_accelerator == "cpu" else chosen(gpus, terms.asked_accelerator, terms.devices)
    wrong = _is_wrong(terms, gpus)
    if view is None and gpus and (order.is_probe or terms.allow_mismatch or (cards and not wrong)):
        view = senses.torch(cards)
    view = view or TorchView()
    cards = _completed(cards, view)
    useless = _why_useless(cards, view)
    finding = ""
    if useless or wrong or _is_wrong(terms, cards):
        reason = useless if gpus else f" ({_why_none(view)})"
        finding = f"asked for {asked_for(terms)}, got {_named(gpus)}{reason}"
    used = [] if useless else cards
    used = apart(used or [_marked(card, senses) for card in cpu_cards(terms.devices)])
    came = gpus or used[:1]
    record = _record(order, gpus, view, finding)
    if order.is_probe and online:
        record = replace(record, internet=senses.internet())
    return Machine(tuple(replace(card, mismatch=finding) for card in used), tuple(came), record)


def _look(order: Order, senses: Senses) -> tuple[list[Card], TorchView | None]:
    """Return the GPUs in sight, and what torch said if it alone could tell."""
    asked = order.terms.asked_accelerator
    if asked == "cpu" and not order.is_probe:
        return [], None
    if gpus := senses.gpus():
        return gpus, None
    if not (order.is_probe or asked not in ("", "cpu") or senses.traces()):
        return [], None
    view = senses.torch([])
    outer = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    pins = outer if len(outer) == len(view.cards) else [str(card.index) for card in view.cards]
    return [
        Card(
            device.index,
            device.name,
            device.memory_mib * _MIB,
            pin=pin,
            capability=device.capability,
            simulated=senses.simulated,
        )
        for device, pin in zip(view.cards, pins, strict=True)
    ], view


# --- what may be wrong ------------------------------------------------------------------------------------


def _is_wrong(terms: Terms, gpus: Sequence[Card]) -> bool:
    """Whether too few of the cards are what was asked for, by name and, where it is known, capability."""
    if terms.asked_accelerator in ("", "cpu"):
        return False
    right = [
        card
        for card in gpus
        if card.matches(terms.asked_accelerator)
        and terms.asked_capability in ("", card.capability or terms.asked_capability)
    ]
    needed = min(terms.asked_count, terms.devices) if terms.devices else terms.asked_count
    return len(right) < max(1, needed)


def _why_useless(cards: Sequence[Card], view: TorchView) -> str:
    """Say why torch cannot work on the cards, in words that follow their names; nothing if it can."""
    for card in cards:
        if card.capability and not has_code(view.arches, card.capability):
            code = ", ".join(view.arches)
            return f", and torch {view.torch} has no code for its capability {card.capability} (only {code})"
    return f", and torch {view.torch} cannot use it: {view.problem}" if cards and view.problem else ""


def has_code(arches: Sequence[str], capability: str) -> bool:
    """Whether code for one of `arches` (`sm_75`, `compute_90`) runs on a GPU of this capability (`8.6`).

    As CUDA has it: a cubin runs on its own major version from its minor on, PTX on anything from its version
    on; what ends in `a` runs on that version alone, in `f` on its major's. Other names tell nothing.
    """
    have = tuple(map(int, capability.split(".")))
    known = [match for arch in arches if (match := re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", arch))]
    return not known or any(_runs(match, have) for match in known)


def _runs(arch: re.Match[str], have: tuple[int, ...]) -> bool:
    least = (int(arch[2]), int(arch[3]))
    if arch[4] == "a":
        return have == least
    return have >= least and (have[0] == least[0] or (arch[1] == "compute" and not arch[4]))


# --- in words ---------------------------------------------------------------------------------------------


def asked_for(terms: Terms) -> str:
    """Say what an order wants, as `2 × Tesla T4`."""
    words = {"": "whatever is there", "any": "any GPU", "cpu": "a CPU"}
    count = f"{terms.asked_count} × " if terms.asked_count else ""
    capability = f" of capability {terms.asked_capability}" if terms.asked_capability else ""
    return words.get(terms.asked_accelerator) or f"{count}{terms.asked_accelerator}{capability}"


def _named(gpus: Sequence[Card]) -> str:
    names = [f"{card.name} ({card.capability})" if card.capability else card.name for card in gpus]
    counted = [f"{names.count(name)} × {name}" for name in dict.fromkeys(names)]
    return " and ".join(counted[:_SHOWN]) or "no GPU"


def _why_none(view: TorchView) -> str:
    said = (
        f"torch {view.torch} says {view.problem or 'nothing of one'}" if view.torch else "there is no torch"
    )
    return f"nvidia-smi lists none, {said}"


# --- the record -------------------------------------------------------------------------------------------


def _completed(cards: list[Card], view: TorchView) -> list[Card]:
    """Add the capabilities that an old nvidia-smi does not know."""
    if len(view.cards) != len(cards):
        return cards
    return [
        replace(card, capability=card.capability or seen.capability)
        for card, seen in zip(cards, view.cards, strict=True)
    ]


def _marked(card: Card, senses: Senses) -> Card:
    """Say of a CPU that stands in for hardware that a test made up what it is."""
    return replace(card, name=f"{SIMULATED}{card.name}", simulated=True) if senses.simulated else card


def _record(order: Order, gpus: Sequence[Card], view: TorchView, finding: str) -> Hardware:
    return Hardware(
        asked_for(order.terms),
        finding,
        tuple(
            Device(card.index, card.name, card.capability, card.memory_bytes // _MIB, card.driver)
            for card in gpus
        ),
        view.torch,
        view.triton,
        view.cuda,
        view.arches,
        platform.python_version(),
        cpu_name(),
        len(cores_here()),
        total_memory() // _MIB,
        shutil.disk_usage(".").free // _MIB,
    )


def as_seen(card: Card, seen: Device | None = None) -> Device:
    """Return the card with what torch sees of it, if torch came that far.

    Torch calls a slice of a GPU a slice, where the card's own name would pass for the whole.
    """
    memory_mib = card.memory_bytes // 2**20 or (seen.memory_mib if seen else 0)
    known = Device(card.index, card.name, card.capability, memory_mib, card.driver)
    if seen is None:
        return known
    name = seen.name if card.torch_device == "cuda" else known.name
    capability = seen.capability or known.capability
    own = replace(seen, index=known.index, memory_mib=known.memory_mib, driver=known.driver)
    return replace(own, name=name, capability=capability)
