"""Run programs on this machine or, through the system's OpenSSH, on another: one seam for both.

What ssh itself has to say is told apart from what the program there says: the program's end is written by
the shell that started it, and an answer without it is no answer. `FERRY_SSH` names another client or gives it
options, such as `ssh -F FILE`.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import select
import shlex
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from builder.errors import InfrastructureError, UsageError
from builder.sshfailures import failure
from builder.terminal import one_line

TICK_S = 3.0  # how often a stream's silence is told
CONNECT_S = 10
SHARED_S = 60  # so long is a connection kept for the next command
_NOT_FOUND = 127  # a shell's code for a program that is not there
_BLOCK = 1 << 16
_BEGIN = b"ferry-begin\n"  # what a login prints of its own accord comes before
_END = re.compile(rb"\nferry-end (\d+)\n")
_WRAPPED = r"""echo ferry-begin; "$@"; printf "\nferry-end %d\n" $? >&2"""
_OPTIONS = {
    "BatchMode": "yes",
    "ConnectTimeout": str(CONNECT_S),
    "ServerAliveInterval": "5",
    "ServerAliveCountMax": "3",
    "ClearAllForwardings": "yes",
    "RemoteCommand": "none",
    "LogLevel": "ERROR",
}


@dataclass(frozen=True)
class Answer:
    """How a program ended: its exit code, 128 + the number of a signal there, and what it wrote."""

    code: int
    out: bytes
    err: bytes

    @property
    def complaint(self) -> str:
        """The last line that it wrote to stderr, else its code; safe to show."""
        lines = self.err.decode(errors="replace").strip().splitlines()
        return one_line(lines[-1]) if lines else f"it ended with code {self.code}"


class Runner(Protocol):
    """Runs programs somewhere; `host` is empty for this machine.

    InfrastructureError: no answer, or none within the deadline; what had been started may have had its
    effect. UsageError: no answer, and asking again will not help (host key, permission, no ssh).
    """

    host: str

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float) -> Answer:
        """Return how a program ended; code 127 when there is none of that name."""

    def stream(
        self, argv: Sequence[str], *, stdin: bytes = b"", tick_s: float = TICK_S, silence_s: float = 0.0
    ) -> Iterator[bytes]:
        """Yield what a program writes to stdout as it comes, and b"" when nothing has come for `tick_s`.

        Ends with the program. InfrastructureError when that fails, and when nothing comes for `silence_s`
        seconds, if they are given.
        """


class Here:
    """This machine."""

    host = ""

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float) -> Answer:
        """Return how a program ended; see `Runner`."""
        try:
            return _run(argv, stdin, timeout_s)
        except OSError as problem:
            return Answer(_NOT_FOUND, b"", f"{argv[0]}: {problem.strerror}".encode())

    def stream(
        self, argv: Sequence[str], *, stdin: bytes = b"", tick_s: float = TICK_S, silence_s: float = 0.0
    ) -> Iterator[bytes]:
        """Yield what a program writes; see `Runner`."""
        with _child(argv, stdin) as (child, complaints):
            yield from _blocks(child, tick_s, silence_s)
            answer = Answer(child.wait(), b"", _all_of(complaints))
        _refuse_failed(argv[0], answer)


class OverSsh:
    """Another machine, by a name that `ssh` knows; ~/.ssh/config, keys and agent are the user's own.

    Commands share one connection, whose socket lies in a private folder, unless the configuration has a
    `ControlPath` of its own.
    """

    def __init__(self, host: str, command: str = "") -> None:
        if not re.fullmatch(r"[\w@:\[\]%.][\w@:\[\]%.-]*", host):
            raise UsageError(f"{host!r} is no name of a machine", "write it as for ssh: USER@HOST or HOST")
        self.host = host
        self._client = shlex.split(command or os.environ.get("FERRY_SSH") or "ssh")

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float) -> Answer:
        """Return how a program there ended; see `Runner`."""
        try:
            answer = _run(self._command(argv), stdin, timeout_s)
        except OSError as problem:
            raise self._no_client(problem) from problem
        except InfrastructureError as silent:
            self.hang_up()
            raise InfrastructureError(
                f"{self.host} gave no answer within {timeout_s:g} s", silent.hint
            ) from None
        return Answer(self._code(answer), answer.out.partition(_BEGIN)[2], _END.sub(b"", answer.err))

    def stream(
        self, argv: Sequence[str], *, stdin: bytes = b"", tick_s: float = TICK_S, silence_s: float = 0.0
    ) -> Iterator[bytes]:
        """Yield what a program there writes; see `Runner`."""
        try:
            with _child(self._command(argv), stdin) as (child, complaints):
                yield from _after_greeting(_blocks(child, tick_s, silence_s))
                answer = Answer(child.wait(), b"", _all_of(complaints))
        except FileNotFoundError as problem:
            raise self._no_client(problem) from problem
        code = self._code(answer)
        _refuse_failed(self.host, Answer(code, b"", _END.sub(b"", answer.err)))

    def hang_up(self) -> None:
        """Drop the shared connection, which may lead nowhere any more; the next command makes another."""
        if self._sharing:
            with contextlib.suppress(InfrastructureError, OSError):
                _run([*self._client, *self._sharing, "-O", "exit", "--", self.host], b"", 5.0)

    def _command(self, argv: Sequence[str]) -> list[str]:
        options = [f"-o{name}={value}" for name, value in _OPTIONS.items()]
        there = shlex.join(["sh", "-c", _WRAPPED, "sh", *argv])
        return [*self._client, "-T", *options, *self._sharing, "--", self.host, there]

    @functools.cached_property
    def _sharing(self) -> list[str]:
        """The options that share a connection; none where the user has a way of their own, or no folder."""
        try:
            settings = _run([*self._client, "-G", "--", self.host], b"", CONNECT_S).out.decode()
        except OSError as problem:
            raise self._no_client(problem) from problem
        own = re.search(r"^controlpath (?!none$)", settings, re.MULTILINE)
        folder = None if own else _private_folder()
        if folder is None:
            return []
        shared = {"ControlMaster": "auto", "ControlPath": f"{folder}/%C", "ControlPersist": str(SHARED_S)}
        return [f"-o{name}={value}" for name, value in shared.items()]

    def _code(self, answer: Answer) -> int:
        """Return the program's own code. Raises what ssh came to where the program's end was not heard."""
        ends = _END.findall(answer.err)
        if ends:
            return int(ends[-1])
        self.hang_up()
        raise failure(self.host, answer.code, answer.err.decode(errors="replace"))

    def _no_client(self, problem: OSError) -> UsageError:
        return UsageError(
            f"{self._client[0]} cannot be started here: {problem.strerror}", "install openssh-client"
        )


def runner(host: str = "") -> Runner:
    """Return what runs programs on `host`, or on this machine when it is empty."""
    return OverSsh(host) if host else Here()


def _refuse_failed(what: str, answer: Answer) -> None:
    if answer.code:
        raise InfrastructureError(f"{what}: {answer.complaint}")


@contextlib.contextmanager
def _child(argv: Sequence[str], stdin: bytes) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """Start a program that cannot ask the terminal; it is gone afterwards, with all its group.

    Its stderr goes to a file: a connection that outlives the program would hold a pipe open.
    """
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as complaints:
        given.write(stdin)
        given.seek(0)
        child = subprocess.Popen(
            argv, stdin=given, stdout=subprocess.PIPE, stderr=complaints, start_new_session=True
        )
        try:
            yield child, complaints
        finally:
            if child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
            assert child.stdout
            child.stdout.close()
            child.wait()


def _run(argv: Sequence[str], stdin: bytes, timeout_s: float) -> Answer:
    with _child(argv, stdin) as (child, complaints):
        try:
            out, _ = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise InfrastructureError(f"{argv[0]} gave no answer within {timeout_s:g} s") from None
        code = child.returncode
        return Answer(code if code >= 0 else 128 - code, out, _all_of(complaints))


def _blocks(child: subprocess.Popen[bytes], tick_s: float, silence_s: float) -> Iterator[bytes]:
    assert child.stdout
    heard = time.monotonic()
    while True:
        if select.select([child.stdout], [], [], tick_s)[0]:
            block = os.read(child.stdout.fileno(), _BLOCK)
            if not block:
                return
            heard = time.monotonic()
            yield block
        elif silence_s and time.monotonic() - heard >= silence_s:
            raise InfrastructureError(f"nothing came for {silence_s:g} s")
        else:
            yield b""


def _after_greeting(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield what comes after the mark with which the program's own output begins."""
    held = b""
    for block in blocks:
        held += block
        _, mark, rest = held.partition(_BEGIN)
        if mark:
            yield rest
            yield from blocks
            return
        if not block:
            yield b""


def _all_of(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _private_folder() -> Path | None:
    """Return a short folder that is ours alone, for a socket's path may have about a hundred letters."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = (
        Path(base, "ferry") if 0 < len(base) <= 32 else Path(tempfile.gettempdir(), f"ferry-{os.getuid()}")
    )
    if len(str(folder)) > 40:
        return None
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
            return folder
    return None
