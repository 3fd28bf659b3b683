"""`FERRY_TEST_HARDWARE=FILE`: a file's answer in the place of the hardware's, for tests without any.

    {"cards": [{"index": 0, "name": "Tesla T4", "capability": "7.5", "memory_mib": 15360, "driver": "550"}],
     "torch": "2.9.0+cu128", "cuda": "12.8", "arches": ["sm_75", "sm_80"], "problem": "", "nvidia_smi": true,
     "internet": false}

`problem` is what torch says when it cannot use the cards, empty when it can; without `nvidia_smi` only torch
sees them. Everything has a default. Nothing but that answer is replaced: the cases run on this machine's CPU,
a process pair a card, and every device's name begins with `simulated`. Standard library only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.cards import Card
from harness.events import SIMULATED, Device, from_plain
from harness.plain import UNREADABLE
from harness.senses import TorchView

VARIABLE = "FERRY_TEST_HARDWARE"


class NoHardwareError(ValueError):
    """The file does not say what hardware to simulate; the text says why."""


@dataclass(frozen=True)
class Answers:
    """The file's content."""

    cards: tuple[Device, ...] = ()
    torch: str = "0.0"
    cuda: str = ""
    arches: tuple[str, ...] = ()
    problem: str = ""
    nvidia_smi: bool = True
    internet: bool = False


class Simulated:
    """Senses that know only what a file says."""

    simulated = True

    def __init__(self, said: Answers) -> None:
        cards = tuple(replace(card, name=f"{SIMULATED}{card.name}") for card in said.cards)
        self._said = replace(said, cards=cards)

    def gpus(self) -> list[Card]:
        """Return the file's cards, if nvidia-smi is to list them."""
        return [
            Card(
                card.index,
                card.name,
                card.memory_mib * 2**20,
                card.driver,
                capability=card.capability,
                simulated=True,
            )
            for card in (self._said.cards if self._said.nvidia_smi else ())
        ]

    def traces(self) -> bool:
        """Whether there are cards that only torch sees."""
        return bool(self._said.cards)

    def torch(self, cards: Sequence[Card]) -> TorchView:
        """Return what the file has torch say of these cards, of all when none is named."""
        said, indices = self._said, [card.index for card in cards]
        seen = tuple(card for card in said.cards if not cards or card.index in indices)
        return TorchView(said.torch, "", said.cuda, said.arches, seen, said.problem)

    def internet(self) -> bool:
        """Return the file's word: nothing is tried."""
        return self._said.internet


def simulated_hardware() -> Simulated | None:
    """Return the hardware that the environment names a file for, if it does. Raises NoHardwareError."""
    name = os.environ.get(VARIABLE)
    if not name:
        return None
    try:
        return Simulated(from_plain(Answers, json.loads(Path(name).read_text(encoding="utf-8"))))
    except OSError as problem:
        raise NoHardwareError(f"{VARIABLE}: cannot read {name}: {problem.strerror}") from problem
    except UNREADABLE as problem:
        raise NoHardwareError(f"{VARIABLE}: {name} describes no hardware: {problem}") from problem
