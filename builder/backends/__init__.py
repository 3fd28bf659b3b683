"""The places a kernel can run. A backend is one file or package here; its file name is its name.

A backend holds no policy: it does not sleep, retry or print. `builder.submission` and its
neighbours do all of that.
"""

from __future__ import annotations

import enum
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from builder.errors import UsageError
from builder.overview import short_help


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

    `folder` is the part's folder, which holds `kernel.py` and `kernel.ipynb`; `slug` is title and slug;
    `devices` is how many cards are wanted at most, 0 for as many as come.
    """

    run_id: str
    part: int
    slug: str
    folder: Path
    accelerator: str = ""
    form: str = "script"
    timeout_s: float = 0.0
    internet: bool = False
    devices: int = 0


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
class OutputFile:
    """A file of the run's working folder. `size` is in bytes, -1 where the place does not say it.

    `name` is as the place gives it and not to be trusted; `link` is the backend's own way to the file.
    """

    name: str
    size: int = -1
    link: str = ""


@dataclass(frozen=True)
class Quota:
    """How much of one resource an account may use, in seconds; `refreshes_at` is ISO 8601 or empty."""

    resource: str
    used_s: float
    total_s: float
    reserved_s: float = 0.0
    refreshes_at: str = ""

    @property
    def left_s(self) -> float:
        """What may still be used."""
        return max(0.0, self.total_s - self.used_s - self.reserved_s)


@dataclass(frozen=True)
class Finding:
    """What a check came to. `mend` says how to mend it and is empty when all is well.

    `absent`: the place is not set up here, which is a fault only to whoever wants it.
    """

    what: str
    detail: str
    mend: str = ""
    absent: bool = False


@dataclass(frozen=True)
class Limits:
    """How a place wants to be dealt with. Times are in seconds, 0 is none.

    `rehearse`: a failed push there costs more than a rehearsal here; `by_hand`: somebody carries kernel and
    log, so that waiting brings nothing; `sessions`: so many run at once; `session_s`: so long runs one at
    most; `poll_s`: between two questions; `grace_s`: so long may the place not know what it has accepted;
    `forgets_s`: after so long it will not remember what it does not know now; `streams`: `follow_log` ends
    when the run ends; `stop_deletes`: stopping takes log and outputs away.
    """

    rehearse: bool = True
    by_hand: bool = False
    sessions: int = 0
    session_s: float = 0.0
    poll_s: float = 1.0
    grace_s: float = 0.0
    forgets_s: float = 0.0
    streams: bool = False
    stop_deletes: bool = False


class Backend(Protocol):
    """What a place can do. Each raises a FerryError when the place answers no or not at all.

    InfrastructureError: no answer, or one that may be another next time. DeniedError: it knows no such
    submission, or it is not ours.
    """

    name: str

    def submit(self, intent: Intent) -> Submission:
        """Hand the kernel over. RefusedThereError or CapacityError: nothing was accepted."""

    def find(self, intent: Intent) -> Submission | None:
        """Return the submission that an interrupted `submit` made after all, if it did."""

    def status(self, submissions: Sequence[Submission]) -> list[Status]:
        """Return one status a submission, in their order, in one call to the place."""

    def follow_log(self, submission: Submission) -> Iterator[bytes]:
        """Yield the raw log from its start as it grows; b"" each few seconds without anything new.

        It ends when the log is whole, and raises InfrastructureError when the connection broke before.
        """

    def fetch_log(self, submission: Submission, target: Path) -> None:
        """Write the whole raw log to `target`, all or nothing."""

    def list_outputs(self, submission: Submission) -> Iterator[OutputFile]:
        """Yield the files of the working folder."""

    def fetch_output(self, submission: Submission, file: OutputFile) -> Iterator[bytes]:
        """Yield a file's bytes. InfrastructureError when it ends short, or what comes is not the file."""

    def stop(self, submission: Submission) -> None:
        """End the run there; see `Limits.stop_deletes`."""

    def limits(self) -> Limits:
        """Say what the place allows; asks nobody."""

    def account(self) -> str:
        """Return the account that a push goes to; empty where there is none."""

    def quota(self) -> list[Quota]:
        """Return what the account has left; empty where nothing is counted."""

    def remarks(self) -> list[str]:
        """Return what people should know of how the account was found; asks nobody, after `account`."""

    def active(self) -> list[str]:
        """Return the names of what the account has under way there and what takes one of its sessions."""

    def checks(self) -> Iterator[Finding]:
        """Look whether a push could go there, and yield what each look came to; raises nothing."""


@runtime_checkable
class TakesMany(Protocol):
    """What a place can do besides that takes several parts of a run in one go."""

    def submit_all(self, intents: Sequence[Intent]) -> list[Submission]:
        """Hand several kernels over that want the same hardware; raises what `submit` raises.

        Some may have been accepted then, and `find` tells which.
        """


@runtime_checkable
class TriesOut(Protocol):
    """What a place can do besides that can say in advance when it would begin with a part."""

    def outlook(self, accelerator: str, devices: int, timeout_s: float) -> str:
        """Say whether a part would be taken, and when it would begin; raises nothing, submits nothing."""


class Unmetered:
    """The answers of a place that has no accounts and counts nothing."""

    def account(self) -> str:
        """There is none."""
        return ""

    def quota(self) -> list[Quota]:
        """Nothing is counted."""
        return []

    def remarks(self) -> list[str]:
        """There is nothing to know."""
        return []

    def active(self) -> list[str]:
        """Nothing is in the way of another run."""
        return []

    def checks(self) -> Iterator[Finding]:
        """There is nothing to look at."""
        return iter(())


def names() -> list[str]:
    """Return the names of all backends without importing any."""
    found = Path(__file__).parent.glob("[a-z]*")
    return sorted(path.stem for path in found if path.suffix == ".py" or (path / "__init__.py").exists())


def about(name: str) -> str:
    """Return the first sentence of a backend's file, without importing it."""
    file = Path(__file__).parent / f"{name}.py"
    package = Path(__file__).parent / name / "__init__.py"
    return short_help(file if file.exists() else package)


def load(name: str) -> Backend:
    """Return the backend called `name`, or `name:profile` where the backend takes profiles of ferry.toml.

    Several, joined by commas, are returned as one. UsageError when there is no such backend or profile.
    """
    if "," in name:
        from builder.several import Several

        return Several((one, load(one)) for one in name.split(","))
    place, _, profile = name.partition(":")
    if place not in names():
        raise UsageError(f"there is no backend {place!r}", f"backends: {', '.join(names())}")
    module = importlib.import_module(f"builder.backends.{place}")
    if not profile:
        backend: Backend = module.BACKEND()
        return backend
    if not hasattr(module, "profiled"):
        raise UsageError(f"backend {place} takes no profile", f"leave out {':' + profile!r}")
    profiled: Backend = module.profiled(profile)
    return profiled
