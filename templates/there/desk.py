"""The folder of one run on the machine that it runs on, and where the run stands. Standard library only.

| files                                     | state     |
| `ended.json`, reason `stopped`            | cancelled |
| `ended.json`, code 0                      | done      |
| `ended.json`, else                        | failed    |
| the kernel or its keeper runs             | running   |
| the keeper runs, no `started.json` yet    | queued    |
| none of these                             | lost      |
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from templates.there.processes import Process, boot

ROOM = 4096  # bytes held for the last word on a disk that may be full by then


@dataclass(frozen=True)
class Desk:
    """A run's folder; all of its files but the log appear whole."""

    folder: Path

    @property
    def kernel(self) -> Path:
        """The kernel's text."""
        return self.folder / "kernel.py"

    @property
    def job(self) -> Path:
        """What was asked for."""
        return self.folder / "job.json"

    @property
    def keeper(self) -> Path:
        """Who keeps the run; made once, which is what starts a run once."""
        return self.folder / "keeper.json"

    @property
    def waits_for(self) -> Path:
        """What the run waits for, in words."""
        return self.folder / "waits.txt"

    @property
    def started(self) -> Path:
        """The kernel's process."""
        return self.folder / "started.json"

    @property
    def ended(self) -> Path:
        """How the kernel ended: its code and the reason."""
        return self.folder / "ended.json"

    @property
    def log(self) -> Path:
        """What the kernel writes, both streams in one."""
        return self.folder / "log.raw"

    @property
    def work(self) -> Path:
        """The kernel's working folder."""
        return self.folder / "work"

    @property
    def trouble(self) -> Path:
        """What the keeper itself has to complain of."""
        return self.folder / "keeper.err"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state()[0] not in ("queued", "running")

    def process(self, file: Path) -> Process | None:
        """Return the process that a file names, if it does."""
        with contextlib.suppress(OSError, ValueError, TypeError):
            return Process(**json.loads(file.read_text()))
        return None

    def state(self) -> tuple[str, str]:
        """Return the state and what there is to say about it."""
        keeper, kernel = self.process(self.keeper), self.process(self.started)
        alive = [
            one for one in (keeper, kernel) if one and one.is_alive
        ]  # asked before the end is looked for
        if self.ended.exists():
            return _ending(json.loads(self.ended.read_text()))
        if kernel and alive:
            return "running", "" if len(alive) == 2 else "nobody keeps its deadline any more"
        if alive:
            return "queued", said(self.waits_for)
        if not self.folder.exists():
            return "lost", f"{self.folder} is not there any more"
        if keeper and keeper.boot != boot():
            return "lost", "the machine was started anew while it ran"
        return "lost", said(self.trouble) or "it was killed from outside"


def _ending(end: dict[str, Any]) -> tuple[str, str]:
    if end["reason"] == "stopped":
        return "cancelled", "stopped"
    if end["code"] == 0:
        return "done", ""
    return "failed", f"the kernel ended with status {end['code']} ({end['reason']})"


def said(path: Path) -> str:
    """Return the last line of a file, empty where there is none."""
    with contextlib.suppress(OSError):
        return path.read_text(errors="replace").strip().rpartition("\n")[2]
    return ""


def put(path: Path, text: str, room: Path | None = None) -> None:
    """Write a file whole or not at all; in `room`, a file that is there and large enough, on a full disk."""
    draft = room or path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("r+b" if room else "wb") as stream:
        stream.write(text.encode())
        stream.truncate()
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(path)


def put_once(path: Path, text: str) -> bool:
    """Write a file unless it is there; False when it was. Of several that try, one succeeds."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    put(draft, text)
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True
