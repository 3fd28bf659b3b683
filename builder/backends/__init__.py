"""The places a kernel can run. A backend is one file here; its file name is its name.

A backend holds no policy: it does not sleep, retry or print. `builder.submission` does all of that.
"""

from __future__ import annotations

import enum
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from builder.errors import UsageError


class State(enum.StrEnum):
    """Where a submission stands. Vendor words map to these in one table a backend."""

    INTENT = "intent"
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    HELD = "held"
    LOST = "lost"
    UNKNOWN = "unknown"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come from there."""
        return self in (State.DONE, State.FAILED, State.CANCELLED, State.REFUSED, State.LOST)


@dataclass(frozen=True)
class Intent:
    """What is about to be submitted; on disk before the call.

    `folder` is the part's folder, which holds `kernel.py` and `kernel.ipynb`; `slug` is title and slug.
    """

    run_id: str
    part: int
    slug: str
    folder: Path
    accelerator: str = ""
    form: str = "script"
    timeout_s: float = 0.0


@dataclass(frozen=True)
class Submission:
    """An accepted submission: what it takes to ask for it again from another shell, another day."""

    backend: str
    reference: str
    slug: str
    url: str = ""


@dataclass(frozen=True)
class Status:
    """A submission's state and what the place says about it in its own words."""

    state: State
    message: str = ""


@dataclass(frozen=True)
class Limits:
    """How a place wants to be dealt with.

    `rehearse`: whether a failed push there costs more than a rehearsal here; `by_hand`: whether somebody
    carries kernel and log, so that waiting brings nothing.
    """

    rehearse: bool = True
    by_hand: bool = False


class Backend(Protocol):
    """Eight verbs; each raises a FerryError when the place answers no or not at all."""

    name: str

    def submit(self, intent: Intent) -> Submission:
        """Hand the kernel over. RefusedThereError or CapacityError: nothing was accepted."""

    def find(self, intent: Intent) -> Submission | None:
        """Return the submission that an interrupted `submit` made after all, if it did."""

    def status(self, submissions: Sequence[Submission]) -> list[Status]:
        """Return one status a submission, in their order, in one call to the place."""

    def follow_log(self, submission: Submission) -> Iterator[bytes]:
        """Yield the raw log from its start as it grows; b"" when nothing is new; end when it is whole."""

    def fetch_log(self, submission: Submission, target: Path) -> None:
        """Write the whole raw log to `target`, all or nothing."""

    def fetch_outputs(self, submission: Submission, target: Path) -> None:
        """Write the files of the working folder under `target`, all or nothing each."""

    def stop(self, submission: Submission) -> None:
        """End the run there; what it has written so far stays."""

    def limits(self) -> Limits:
        """Say what the place allows."""


def names() -> list[str]:
    """Return the names of all backends without importing any."""
    return sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))


def load(name: str) -> Backend:
    """Return the backend called `name`. UsageError when there is none."""
    if name not in names():
        raise UsageError(f"there is no backend {name!r}", f"backends: {', '.join(names())}")
    backend: Backend = importlib.import_module(f"builder.backends.{name}").BACKEND()
    return backend
