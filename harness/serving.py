"""The children's side of the channel: a loop that answers the driver. Standard library only.

A child is started as `python -m harness.worker REQUESTS REPLIES FOLDER`: two file descriptors and the
working folder. Its start is in the bundle's folder, so that nothing in the working folder can stand in
for a module of ours.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from harness.channel import Hello, Message, Problem
from harness.wire import pack, unpack

ERROR_CHARACTERS = 3000  # of a traceback; its end says most
_PR_SET_PDEATHSIG = 1
_NOT_THE_AUTHORS = (f"{Path(__file__).parent}{os.sep}", "<frozen importlib", importlib.__file__)

Answer = Callable[[Message], Message]


class RefusedError(Exception):
    """The candidate did something that is a finding of its own and has no traceback worth showing."""

    def __init__(self, status: str, kind: str, error: str) -> None:
        super().__init__(error)
        self.problem = Problem(status, kind, error)


def serve(module: str, oom_score: int) -> None:
    """Answer requests until the driver closes the channel.

    `module` has a class `Desk`, made from Hello's device; it is imported only when Hello comes, so that a
    missing torch is an answer like any other. `oom_score` is added to what the kernel's out-of-memory
    killer sees: the highest goes first.
    """
    requests, replies = (int(number) for number in sys.argv[1:3])
    _settle((requests, replies), sys.argv[3], oom_score)
    del sys.argv[1:]  # what reads the command line at import finds none
    me, desk = os.getpid(), _Door(module)
    with open(requests, "rb") as incoming, open(replies, "wb") as outgoing:  # noqa: PTH123 (descriptors)
        for line in incoming:
            request, number = unpack(line)
            reply = _answer(desk, request)
            if os.getpid() != me:
                os._exit(0)  # a fork that the candidate let run out of its own code
            outgoing.write(pack(reply, number))
            outgoing.flush()
        _leave()


class _Door:
    """Opens the desk at Hello and passes all requests on to it."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._answer: Answer | None = None

    def __call__(self, request: Message) -> Message:
        if self._answer is None:
            assert isinstance(request, Hello)
            self._answer = importlib.import_module(self._module).Desk(request.device).answer
        return self._answer(request)


def _answer(desk: Answer, request: Message) -> Message:
    try:
        return desk(request)
    except RefusedError as refused:
        return refused.problem
    except BaseException as error:  # noqa: BLE001 (whatever a candidate raises, SystemExit too, is its result)
        return _problem(error)


def _problem(error: BaseException) -> Problem:
    status = "oom" if is_out_of_memory(error) else "error"
    return Problem(status, type(error).__name__, _tail_of_traceback(error))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that there was no more memory, on the device or here."""
    # torch's class is known by its name: this module must not need torch.
    names = {cls.__name__ for cls in type(error).__mro__}
    return bool(names & {"MemoryError", "OutOfMemoryError"}) or any(
        words in str(error)
        for words in (
            "DefaultCPUAllocator: ",
            "CUDA out of memory",
            "CUDA error: out of memory",
            "STATUS_ALLOC_FAILED",
        )
    )


def _tail_of_traceback(error: BaseException) -> str:
    """Format the traceback as the candidate's author would see it: it begins in the author's own code."""
    shown = traceback.TracebackException.from_exception(error)
    while len(shown.stack) > 1 and shown.stack[0].filename.startswith(_NOT_THE_AUTHORS):
        del shown.stack[0]
    return "".join(shown.format()).strip()[-ERROR_CHARACTERS:]


def _leave() -> None:
    """End at once: torch takes half a second to clean up what the end of the process cleans up anyway."""
    with contextlib.suppress(Exception):  # a candidate may have put anything in stdout's place, or closed it
        sys.stdout.flush()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)  # what extensions have printed and C still holds back
    os._exit(0)


def _settle(descriptors: tuple[int, ...], folder: str, oom_score: int) -> None:
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)  # programs that the candidate starts get no hold of the channel
    with contextlib.suppress(OSError, AttributeError):  # where there is no prctl, the closed channel ends us
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(oom_score))
    os.chdir(folder)
