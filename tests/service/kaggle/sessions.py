"""Kernels, their versions, and the session that runs a version."""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tests.service.kaggle.execution import Execution
from tests.service.kaggle.knobs import OUT_OF_TIME, Ending, Knobs
from tests.service.kaggle.logtext import CONVERTER, FROZEN_MODULES, Log

Machine = Literal["GPU", "TPU", "CPU"]
UNFINISHED = ("QUEUED", "RUNNING")
_TICK_S = 0.01


def slugify(title: str) -> str:
    """Return the slug that the service makes of a title."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def machine_of(request: dict[str, Any]) -> Machine:
    """Return the kind of machine that a push asks for: the shape wins over the flags."""
    shape = request.get("machineShape")
    if shape:
        return "GPU" if shape.startswith(("Nvidia", "Gpu")) else "TPU" if shape.startswith("Tpu") else "CPU"
    return "GPU" if request.get("enableGpu") else "TPU" if request.get("enableTpu") else "CPU"


@dataclass
class Kernel:
    """What stands at `owner/slug`."""

    number: int
    owner: str
    slug: str
    title: str
    versions: list[Session] = field(default_factory=list)
    deleted: bool = False

    @property
    def ref(self) -> str:
        """The kernel's name."""
        return f"{self.owner}/{self.slug}"


class Session:
    """One version of a kernel and its run, in a thread of its own."""

    def __init__(self, kernel: Kernel, request: dict[str, Any], home: Path, knobs: Knobs) -> None:
        self.kernel, self.request, self.knobs = kernel, request, knobs
        self.number = len(kernel.versions) + 1
        self.folder = home / kernel.owner / kernel.slug / str(self.number)
        self.status, self.failure = "QUEUED", ""
        self.pushed_at, self.ended_at = time.monotonic(), float("inf")
        self.started_wall = self.ended_wall = time.time()
        self.log = Log(knobs.torn_every)
        self.outputs: dict[str, bytes] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._live, name=f"{kernel.ref}/{self.number}")

    @property
    def ended(self) -> bool:
        """Whether it has its last status."""
        return self.status not in UNFINISHED

    def start(self) -> None:
        """Queue the session; a version that is only saved is never run."""
        if self.request.get("kernelExecutionType") == "QUICK_SAVE":
            self._end("COMPLETE")
        else:
            self._thread.start()

    def stop(self) -> None:
        """End the session now and wait until nothing of it runs."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def wait(self, seconds: float = 60) -> str:
        """Return the last status when it is reached; fail after so many seconds."""
        limit = time.monotonic() + seconds
        while not self.ended:
            assert time.monotonic() < limit, f"{self.kernel.ref} is still {self.status}"
            time.sleep(_TICK_S)
        return self.status

    def takes_slot(self) -> bool:
        """Whether it counts among the sessions at once."""
        return time.monotonic() < self.ended_at + self.knobs.slots_linger_s

    def _live(self) -> None:
        while not self._stopped.wait(_TICK_S) and (self.knobs.hold or self._age() < self.knobs.queue_s):
            pass
        if self._stopped.is_set():
            self._end("CANCEL_ACKNOWLEDGED")
            return
        notebook = self.request.get("kernelType") == "notebook"
        self.status = "RUNNING"
        if notebook:
            self.log.write("stderr", FROZEN_MODULES)
        execution = self._execute("notebook" if notebook and not self.knobs.stand_in else "script")
        code, ending = self._watch(execution)
        execution.tear_down()
        if self.knobs.trailer and not self._stopped.is_set():
            self.log.write("stderr", CONVERTER)
        while self.knobs.wedged and not self._stopped.wait(_TICK_S):
            pass
        if ending:
            self.failure = ending.message
        self._collect(execution.working, ok=code == 0)
        self._end(ending.status if ending else "COMPLETE" if code == 0 else "ERROR")

    def _execute(self, kind: str) -> Execution:
        environment = dict(self.knobs.environment)
        if self.knobs.hardware is not None:
            file = self.folder / "hardware.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(self.knobs.hardware), "utf-8")
            environment["FERRY_TEST_HARDWARE"] = str(file)
        text = self.knobs.stand_in or self.request["text"]
        return Execution(text, kind, self.folder, environment, self.log.write)

    def _watch(self, execution: Execution) -> tuple[int | None, Ending | None]:
        """Wait for the program's end, or for what ends it: exit code, and why it was killed."""
        began = time.monotonic()
        asked = self.request.get("sessionTimeoutSeconds") or float("inf")
        while (code := execution.wait(_TICK_S)) is None:
            limit = min(asked, self.knobs.session_limit_s)
            message = OUT_OF_TIME if self.knobs.limit_ends_as == "ERROR" else ""
            for ending in (self.knobs.ending, Ending(limit, self.knobs.limit_ends_as, message)):
                if ending and time.monotonic() - began >= ending.after_s:
                    return None, ending
            if self._stopped.is_set():
                return None, Ending(0, "CANCEL_ACKNOWLEDGED", "")
        return code, None

    def _collect(self, working: Path, ok: bool) -> None:
        if ok or self.knobs.keeps_failed_outputs:
            files = (path for path in sorted(working.rglob("*")) if path.is_file() and not path.is_symlink())
            self.outputs = {path.relative_to(working).as_posix(): path.read_bytes() for path in files}

    def _end(self, status: str) -> None:
        self.ended_at, self.ended_wall = time.monotonic(), time.time()
        self.status = status
        self.log.end()

    def _age(self) -> float:
        return time.monotonic() - self.pushed_at


class Sessions:
    """All kernels of the service and every session that it ever started."""

    def __init__(self, home: Path, knobs: Knobs) -> None:
        self.home, self.knobs = home, knobs
        self.kernels: list[Kernel] = []
        self.all: list[Session] = []
        self.lock = threading.Lock()
        self._numbers = itertools.count(1001)

    def find(self, owner: str, slug: str) -> Kernel | None:
        """Return the kernel of this name, a deleted one only when there is no other."""
        named = [kernel for kernel in self.kernels if (kernel.owner, kernel.slug) == (owner, slug)]
        return next((kernel for kernel in named if not kernel.deleted), named[-1] if named else None)

    def create(self, owner: str, title: str) -> Kernel:
        """Add a kernel, whose slug comes from its title."""
        kernel = Kernel(next(self._numbers), owner, slugify(title), title)
        self.kernels.append(kernel)
        return kernel

    def begin(self, kernel: Kernel, request: dict[str, Any]) -> Session:
        """Add a version to a kernel and start its session."""
        home = self.home / str(kernel.number)
        session = Session(kernel, request, home, self.knobs)
        kernel.versions.append(session)
        self.all.append(session)
        session.start()
        return session

    def delete(self, kernel: Kernel) -> None:
        """Stop a kernel's sessions and drop it."""
        kernel.deleted = True
        for session in kernel.versions:
            session.stop()

    def busy(self, machine: Machine) -> int:
        """How many sessions on such a machine count at this moment."""
        return sum(machine_of(session.request) == machine and session.takes_slot() for session in self.all)

    def close(self) -> None:
        """Stop everything."""
        for session in self.all:
            session.stop()
