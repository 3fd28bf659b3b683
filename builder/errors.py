"""Every error that gpuferry raises on purpose, with its exit code.

FerryError
├── UsageError            2    a wrong word on the command line or in a configuration file
├── RefusedHereError      2    size, credential, import, rehearsal: refused before a push
├── RefusedThereError     2    the service said no to the push itself
├── WrongAcceleratorError 6    the hardware is not what was asked for
├── CapacityError         7    quota or slots used up
│   └── NoSlotError            all sessions are taken; one frees by itself
├── InfrastructureError   5    could not find out; try again
│   └── DeniedError            the place knows no such run, or it is not ours
├── WaitExpiredError    124    the host's patience ran out; the run goes on
├── InterruptError      130    Ctrl-C
├── IncompleteError       4    results are missing
└── BugError              1    ours; please report it

Without an error the rows decide: 6 wrong accelerator, 4 a case is `unknown` or `not_run`, 3 a case is
`failed_gate`, `error`, `oom`, `timeout` or `disqualified`, else 0. Of several codes
the worst wins: see `SEVERITY`.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator


class Exit(enum.IntEnum):
    """Exit codes of `ferry`."""

    OK = 0
    BUG = 1
    USAGE = 2
    CASE_FAILED = 3
    INCOMPLETE = 4
    INFRASTRUCTURE = 5
    WRONG_ACCELERATOR = 6
    CAPACITY = 7
    CANNOT_TELL = 8
    WAIT_EXPIRED = 124
    INTERRUPTED = 130


# From worst to best: of several outcomes, the first in this order is the command's exit code.
SEVERITY = (
    Exit.USAGE,
    Exit.BUG,
    Exit.WRONG_ACCELERATOR,
    Exit.CAPACITY,
    Exit.INFRASTRUCTURE,
    Exit.WAIT_EXPIRED,
    Exit.INCOMPLETE,
    Exit.CASE_FAILED,
    Exit.CANNOT_TELL,
    Exit.OK,
)


def worst(*codes: Exit) -> Exit:
    """Return the worst of `codes` in the order of `SEVERITY`; no code at all is OK."""
    return min(codes, key=SEVERITY.index, default=Exit.OK)


class FerryError(Exception):
    """One sentence that says what is wrong and where, and a hint that says what to do next.

    `run_id` is the run that it is about, for programs; empty when there is none.
    """

    exit_code = Exit.BUG
    run_id = ""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(FerryError):
    """A wrong word on the command line or in a configuration file."""

    exit_code = Exit.USAGE


class RefusedHereError(FerryError):
    """Refused on this machine before anything was pushed."""

    exit_code = Exit.USAGE


class RefusedThereError(FerryError):
    """The service answered and said no to this push."""

    exit_code = Exit.USAGE


class WrongAcceleratorError(FerryError):
    """The hardware that came is not the hardware that was asked for."""

    exit_code = Exit.WRONG_ACCELERATOR


class CapacityError(FerryError):
    """No slot is free, or the quota is used up."""

    exit_code = Exit.CAPACITY


class NoSlotError(CapacityError):
    """All the sessions that an account may have are taken; one frees by itself."""


class InfrastructureError(FerryError):
    """Something between here and there failed; trying again may help.

    `retry_after_s` is how long the place asks to be left alone; 0 when it does not say.
    """

    exit_code = Exit.INFRASTRUCTURE

    def __init__(self, message: str, hint: str = "", retry_after_s: float = 0.0) -> None:
        super().__init__(message, hint)
        self.retry_after_s = retry_after_s


class DeniedError(InfrastructureError):
    """The place knows no such run, or says that it is not ours: asking again seldom helps."""


class WaitExpiredError(FerryError):
    """The host stopped waiting; the run itself goes on."""

    exit_code = Exit.WAIT_EXPIRED


class InterruptError(FerryError):
    """Somebody pressed Ctrl-C; the sentence says what became of the run."""

    exit_code = Exit.INTERRUPTED


class IncompleteError(FerryError):
    """Results are missing."""

    exit_code = Exit.INCOMPLETE


class BugError(FerryError):
    """A state that gpuferry's own code should have made impossible."""


# What a place, or this machine, says no to a push with: it does not help to push the same again.
REFUSALS = (CapacityError, RefusedHereError, RefusedThereError, DeniedError, UsageError)


@contextlib.contextmanager
def a_no_is_final() -> Iterator[None]:
    """Take a denial for a refusal: of a change, and of what does not depend on a run that may be young."""
    try:
        yield
    except DeniedError as denied:
        raise RefusedThereError(denied.message, denied.hint) from denied


@contextlib.contextmanager
def about(run_id: str) -> Iterator[None]:
    """Say of every error that leaves the block which run it is about."""
    try:
        yield
    except FerryError as error:
        error.run_id = run_id
        raise
