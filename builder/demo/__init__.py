"""What goes wrong elsewhere, played: each scene runs the usual tool and then ferry, for real, in a minute.

A scene is one file in `scenes/`; its file name is its name. It has PLACE, the order it is played in, MORAL,
NEEDS_TORCH, and `play`, which yields what was run as it ends.
"""

from __future__ import annotations

import contextlib
import importlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from builder.demo.loopback import Loopback
from builder.demo.stage import Act, Stage, python
from builder.errors import BugError, UsageError
from builder.overview import short_help
from builder.rehearsal import has_torch

_SCENES = Path(__file__).parent / "scenes"


class Play(Protocol):
    """What a scene's file holds."""

    PLACE: int
    MORAL: str
    NEEDS_TORCH: bool

    def play(self, stage: Stage) -> Iterator[Act]:
        """Run one command after another and yield each with what it came to."""


@dataclass(frozen=True)
class Scene:
    """One scene: its name, its title in a few words, and its file's content."""

    name: str
    title: str
    content: Play

    @property
    def can_play(self) -> bool:
        """Whether what it needs is on this machine."""
        return not self.content.NEEDS_TORCH or has_torch(python())

    def acts(self) -> Iterator[Act]:
        """Play it in a temporary folder, before a service of its own; both are gone afterwards.

        BugError when a command ends with another exit code than the scene is about.
        """
        with tempfile.TemporaryDirectory(prefix="ferry-demo-") as name, contextlib.ExitStack() as stack:
            service = stack.enter_context(Loopback(Path(name) / "service"))
            for act in self.content.play(Stage(Path(name), service)):
                yield act
                if act.exit_code != act.expected:
                    ended = f"`{act.command}` ended with {act.exit_code}, not {act.expected}"
                    raise BugError(
                        f"scene {self.name}: {ended}:\n{act.said.strip()}",
                        "please report it with the lines above",
                    )


def names() -> list[str]:
    """Return the names of all scenes, in alphabetical order, without importing any."""
    return sorted(path.stem.replace("_", "-") for path in _SCENES.glob("[a-z]*.py"))


def programme(only: str | None = None) -> list[Scene]:
    """Return all scenes in the order they are played in, or the one called `only`. UsageError for no name."""
    if only and only not in names():
        raise UsageError(f"there is no scene {only!r}", f"scenes: {', '.join(names())}")
    found = [_scene(name) for name in ([only] if only else names())]
    return sorted(found, key=lambda scene: scene.content.PLACE)


def _scene(name: str) -> Scene:
    stem = name.replace("-", "_")
    content: Play = importlib.import_module(f"builder.demo.scenes.{stem}")
    return Scene(name, short_help(_SCENES / f"{stem}.py"), content)
