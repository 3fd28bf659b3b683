"""A child of the driver: how it is started, asked, heard and ended. Standard library only.

A child has its own process group and session, no stdin, and pipes for what it prints. Whatever it starts
carries the child's tag in its environment, so that nothing outlives it, not even in another session.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from harness.channel import Done, Hello, Load, Message, Problem, Ready
from harness.company import Helpers
from harness.events import Device
from harness.isolation import Identity
from harness.limits import CaseFailureError, Watch
from harness.wire import BrokenMessageError, pack, unpack

ROOT = Path(__file__).resolve().parent.parent  # the folder that the bundle was unpacked to
TICK_S = 0.25
FAREWELL_S = 1.0  # for a child to leave by itself, so that its last words are heard
DYING_S = 5.0  # from the end of its channel to that of the child: a card takes seconds to let go of
REPLY_BYTES = 1 << 24  # a longer one is none of ours
_TAG = "FERRY_CHILD"
_SILENT = "ignore:Failed to initialize NumPy"  # torch says so at every start where there is no numpy

M = TypeVar("M")

_started: list[Child] = []  # by this driver


class Child:
    """One running `python -m harness.<name>`, greeted at once; `hear` takes the bytes that it prints.

    With an identity it runs as that user, in that user's home; else as this process's user and in its folder.
    """

    def __init__(
        self,
        name: str,
        device: str,
        environment: Mapping[str, str],
        hear: Callable[[bytes], None],
        identity: Identity | None = None,
    ) -> None:
        self.name = name
        self.gone = False  # whether it is certain that nothing of it lives
        self._identity = identity
        self._hear = hear
        self._tag = uuid.uuid4().hex
        self._oom_kills = _oom_kills()
        requests_end, self._requests = os.pipe()
        self._replies, replies_end = os.pipe()
        try:
            tagged = {**environment, _TAG: self._tag}
            self._process = _start(name, requests_end, replies_end, tagged, identity)
        finally:
            os.close(requests_end)
            os.close(replies_end)
        _started.append(self)
        assert self._process.stdout is not None
        self._said = self._process.stdout.fileno()
        self._unread = bytearray()
        self._silent_since = math.inf  # when its end of the channel was closed
        self._selector = selectors.DefaultSelector()
        for source in (self._replies, self._said):
            self._selector.register(source, selectors.EVENT_READ)
        self._device: Device | None = None
        self._asked = 0  # requests
        self._send(Hello(device))  # the answer is read later: children start side by side

    @property
    def alive(self) -> bool:
        """Whether the child may still be asked."""
        return self._said >= 0

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    @property
    def helpers(self) -> Helpers:
        """What it has started, to be watched from now on."""
        uid = self._identity.uid if self._identity else None
        return Helpers(self.pid, uid, f"{_TAG}={self._tag}".encode())

    def welcome(self, load: Load, watch: Watch) -> Device:
        """Await the child's start, have it load its code, and return the device as it sees it.

        Raises CaseFailureError like `ask`. Again is no work.
        """
        if self._device is None:
            device = self._reply(Ready, watch).device
            self.ask(load, Done, watch)
            self._device = device
        return self._device

    def ask(self, request: Message, kind: type[M], watch: Watch) -> M:
        """Send the request and return its reply, which is of the given kind.

        Raises CaseFailureError when the child answers with a problem, dies, breaks the channel, or when the
        watch's time is up; in all cases but the first it is dead after that.
        """
        self._send(request)
        return self._reply(kind, watch)

    def _reply(self, kind: type[M], watch: Watch) -> M:
        try:
            reply, number = unpack(self._next_line(watch))
            if number != self._asked or not isinstance(reply, (kind, Problem)):
                words = f"a {type(reply).__name__} came from the {self.name} that answers nothing asked of it"
                raise CaseFailureError("disqualified", "forged_reply", words)
        except (CaseFailureError, BrokenMessageError) as failure:
            self.kill()
            raise self._blamed(failure) from failure
        if isinstance(reply, Problem):
            raise self._blamed(CaseFailureError(reply.status, reply.kind, reply.error))
        return reply

    def end(self) -> None:
        """Let the child leave by itself, then kill what is left of it."""
        if self._process.poll() is None:
            self._close_requests()
            self._drain(until=time.monotonic() + FAREWELL_S)
        self.kill()

    def kill(self) -> None:
        """Kill the child and all that it started, and hear what it had said. Again is no harm."""
        if not self.alive:
            return
        self.gone = self._kill_processes(patience_s=2)
        self._drain(until=time.monotonic() + TICK_S)
        self._selector.close()
        self._close_requests()
        os.close(self._replies)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._said = -1

    def _kill_processes(self, patience_s: float) -> bool:
        """Kill all that is the child's and return whether it is gone."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        _kill_tagged(self._tag)
        with contextlib.suppress(subprocess.TimeoutExpired):  # stuck in the driver of a sick card
            self._process.wait(timeout=patience_s)
        others_are_gone = self._identity is None or self._identity.kill_all()
        return others_are_gone and self._process.poll() is not None

    # --- the pipes ----------------------------------------------------------------------------------------

    def _send(self, request: Message) -> None:
        self._asked += 1
        with contextlib.suppress(OSError):  # a dead child is noticed where its reply is missing
            os.write(self._requests, pack(request, self._asked))

    def _close_requests(self) -> None:
        if self._requests >= 0:
            os.close(self._requests)
            self._requests = -1

    def _next_line(self, watch: Watch) -> bytes:
        while b"\n" not in self._unread:
            watch.check()
            gone = self._process.poll() is not None
            if not self._listen(0 if gone else TICK_S) and gone:
                raise self._death()
            if len(self._unread) > REPLY_BYTES:
                raise BrokenMessageError("a line without end")
            if time.monotonic() > self._silent_since + DYING_S:
                raise BrokenMessageError("it is closed")
        line, _, self._unread = self._unread.partition(b"\n")
        return bytes(line)

    def _listen(self, timeout: float) -> bool:
        """Read what has come; return whether a reply may have."""
        replied = False
        for key, _ in self._selector.select(timeout):
            data = os.read(key.fd, 1 << 16)
            if not data:
                self._selector.unregister(key.fd)
                if key.fd == self._replies:
                    self._silent_since = time.monotonic()
            elif key.fd == self._replies:
                self._unread += data
                replied = True
            else:
                self._hear(data)
        return replied

    def _drain(self, until: float) -> None:
        """Hear the child until it has closed its pipes, nothing comes from a dead one, or time is up."""
        while self._selector.get_map() and (left := until - time.monotonic()) > 0:
            gone = self._process.poll() is not None
            if not self._selector.select(0 if gone else left) and gone:
                return
            self._listen(0)

    # --- how it failed ------------------------------------------------------------------------------------

    def _death(self) -> CaseFailureError:
        code = self._process.returncode
        if code >= 0:
            return CaseFailureError("error", f"exit {code}", f"the {self.name} left with exit code {code}")
        named = -code in set(signal.Signals)
        name = signal.Signals(-code).name if named else f"signal {-code}"
        if name == "SIGKILL" and _oom_kills() > self._oom_kills:
            return CaseFailureError("oom", name, f"the {self.name} was killed: the machine was out of memory")
        return CaseFailureError("error", name, f"the {self.name} was ended by {name}")

    def _blamed(self, failure: CaseFailureError | BrokenMessageError) -> CaseFailureError:
        """Say that it was the judge: the candidate had no part in it."""
        if isinstance(failure, BrokenMessageError):
            failure = CaseFailureError(
                "error", "broken_channel", f"the {self.name} broke its channel: {failure}"
            )
        if self.name == "judge" and failure.status != "not_run":
            return CaseFailureError(failure.status, f"judge:{failure.kind}", failure.error)
        return failure


def interpreter() -> str:
    """Return this interpreter's path, by a link when its environment's path has a space in it.

    The commands by which torch.compile builds C++ break at spaces in the path of torch.
    """
    home, program = Path(sys.prefix), Path(sys.executable)
    if " " not in str(home) or not program.is_relative_to(home):
        return str(program)
    link = ROOT / "scratch" / "python"
    link.parent.mkdir(exist_ok=True)
    with contextlib.suppress(FileExistsError):
        link.symlink_to(home)
    return str(link / program.relative_to(home))


def _start(
    name: str, requests: int, replies: int, environment: Mapping[str, str], identity: Identity | None
) -> subprocess.Popen[bytes]:
    as_user: dict[str, Any] = {}
    if identity is not None:
        as_user = {"user": identity.uid, "group": identity.uid, "extra_groups": []}
    return subprocess.Popen(
        [
            *(interpreter(), "-u", "-X", "faulthandler", "-W", _SILENT, "-m", f"harness.{name}"),
            *(str(requests), str(replies), str(identity.home if identity else Path.cwd())),
        ],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
        pass_fds=(requests, replies),
        start_new_session=True,
        **as_user,
    )


def none_alive() -> bool:
    """Kill what still lives of all children that were ever started here; return whether that is certain."""
    for child in _started:
        child.gone = child.gone or child._kill_processes(patience_s=1)
    return all(child.gone for child in _started)


def _kill_tagged(tag: str) -> None:
    """Kill the processes that a child left behind in other process groups, where there is a /proc to see."""
    mark = f"{_TAG}={tag}".encode()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in environ.read_bytes().split(b"\0"):
                os.kill(int(environ.parent.name), signal.SIGKILL)


def _oom_kills() -> int:
    """How many processes the kernel has killed for want of memory so far; 0 where it does not say."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
