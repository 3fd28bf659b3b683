"""What a probe has found, kept per account and accelerator with its date."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder.runs import atomic_write
from builder.spec import PROBE, RunSpec
from harness.events import Hardware, to_plain


@dataclass(frozen=True)
class Probe:
    """One probe: who asked whom for what, when, and what came."""

    at: str
    backend: str
    account: str
    accelerator: str
    run_id: str
    hardware: Hardware

    @property
    def file(self) -> Path:
        """Where it is kept, until the next one of the same account and accelerator."""
        from platformdirs import user_state_path

        name = "-".join(filter(None, (self.backend, self.account, self.accelerator)))
        return user_state_path("gpuferry") / "probes" / (re.sub(r"[^\w.-]", "_", name) + ".json")

    def keep(self) -> Path:
        """Write it down; return where."""
        atomic_write(self.file, json.dumps(self.plain(), indent=2) + "\n")
        return self.file

    def plain(self) -> Any:
        """Return it as JSON's types."""
        return to_plain(self)

    def facts(self) -> dict[str, object]:
        """Return what came, named for people, in the order of interest."""
        found = self.hardware
        card = found.cards[0] if found.cards else None
        internet = {None: "not tried", True: "reached", False: "not reached"}[found.internet]
        return {
            "device": card.name if card else f"no GPU, {found.cpu}",
            "count": len(found.cards),
            "memory": f"{card.memory_mib:,} MiB" if card else f"{found.ram_mib:,} MiB",
            "capability": card.capability if card else "",
            "driver": card.driver if card else "",
            "CUDA": found.cuda,
            "torch": found.torch,
            "Triton": found.triton,
            "Python": found.python,
            "CPUs": found.cpus,
            "disk": f"{found.disk_mib:,} MiB free",
            "internet": internet,
        }


def spec(backend: str, accelerator: str, internet: bool) -> RunSpec:
    """Return the spec of a probe: a run without cases, whose kernel only looks around."""
    return RunSpec(PROBE, (), name=PROBE, backend=backend, accelerator=accelerator, internet=internet)
