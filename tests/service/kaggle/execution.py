"""Execute one pushed source in a process of its own, as the service does in a container."""

from __future__ import annotations

import codecs
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

from tests.service.kaggle.rooting import rooted

RUNNER = Path(__file__).with_name("notebook.py")
# In every process of a session: how they are found when the session is torn down.
_MARK = "FERRY_TEST_SESSION"
_LAST_WORDS_S = 10
Write = Callable[[str, str], None]  # stream name, text


class Execution:
    """A running program with its folders below `home`; `write` gets what it writes as it comes."""

    def __init__(
        self, text: str, kind: str, home: Path, environment: Mapping[str, str], write: Write
    ) -> None:
        self.working = home / "working"
        self._id = uuid.uuid4().hex
        for name in ("working", "root", "home", "tmp", "src"):
            (home / name).mkdir(parents=True)
        source = home / "src" / ("script.py" if kind == "script" else "notebook.ipynb")
        source.write_text(text, "utf-8")
        command = [sys.executable, *([] if kind == "script" else [str(RUNNER)]), str(source)]
        self._process = subprocess.Popen(
            rooted(command, self.working, home / "root"),
            cwd=self.working,
            env=_container(home) | dict(environment) | {_MARK: self._id},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        pipes = {"stdout": self._process.stdout, "stderr": self._process.stderr}
        readers = [threading.Thread(target=_read, args=(pipe, name, write)) for name, pipe in pipes.items()]
        self._readers = readers
        for reader in readers:
            reader.start()

    def wait(self, seconds: float) -> int | None:
        """Return the program's exit code, None if it still runs after `seconds`."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def tear_down(self) -> None:
        """Kill every process of the session, whatever group it is in; read what they have left to say."""
        _kill([*_descendants(self._process.pid), self._process.pid])
        self._process.wait()
        while left := _marked(self._id):
            _kill(left)
            time.sleep(0.002)
        for reader in self._readers:
            reader.join(_LAST_WORDS_S)


def _container(home: Path) -> dict[str, str]:
    """The environment that a program finds: nothing of ours but the way to Python."""
    return {
        "HOME": str(home / "home"),
        "TMPDIR": str(home / "tmp"),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]),
        "LANG": "C.UTF-8",
        "KAGGLE_KERNEL_RUN_TYPE": "Batch",
        "UV_SYSTEM_PYTHON": "1",
    }


def _read(pipe: IO[bytes] | None, name: str, write: Write) -> None:
    """Pass on each write of the program as it comes."""
    assert pipe is not None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    with pipe:
        while data := os.read(pipe.fileno(), 65536):
            write(name, decoder.decode(data))
    write(name, decoder.decode(b"", final=True))


def _kill(processes: Iterable[int]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _descendants(process: int) -> Iterator[int]:
    """The children of a process and theirs, for those that keep their environment to themselves."""
    parents = {child: int(fields[1]) for child, fields in _living()}
    for child in parents:
        above = child
        while above in parents and above != process:
            above = parents[above]
        if above == process != child:
            yield child


def _marked(mark: str) -> list[int]:
    """The live processes whose environment has the session's mark: also those whose parents are gone."""
    entry, found = f"{_MARK}={mark}".encode(), []
    for process, _ in _living():
        with contextlib.suppress(OSError):
            if entry in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
                found.append(process)
    return found


def _living() -> Iterator[tuple[int, list[str]]]:
    """Each process that has not ended, with what /proc's `stat` says after its name: state, parent, ..."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (folder / "stat").read_text("latin-1").rpartition(")")[2].split()
            if fields[0] not in "ZX":
                yield int(folder.name), fields
