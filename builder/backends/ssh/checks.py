"""Whether a run could go to a machine over ssh: the way there, Python, torch, cards, the folder."""

from __future__ import annotations

from collections.abc import Iterator

from builder.backends import Finding
from builder.backends.ssh.calls import Calls, Look
from builder.doctor import LEAST_GIB
from builder.errors import FerryError
from builder.terminal import one_line

LOOK_S = 120.0  # importing torch takes its time


def machine(there: Calls) -> Iterator[Finding]:
    """Yield what each look at a machine came to; one that cannot be reached has no more to show."""
    try:
        there.runner.run(["true"], timeout_s=20.0)
    except FerryError as problem:
        yield trouble(f"{there.where} ssh", problem)
        return
    yield Finding(f"{there.where} ssh", "reached")
    try:
        found = there.ask(Look, "look", there.profile.folder, timeout_s=LOOK_S)
    except FerryError as problem:
        yield trouble(f"{there.where} python", problem)
        return
    yield from _found(there.where, found)


def trouble(what: str, problem: FerryError) -> Finding:
    """Return an error as what a check came to."""
    return Finding(what, problem.message, problem.hint or "try again later")


def _found(where: str, found: Look) -> Iterator[Finding]:
    yield Finding(f"{where} python", f"{found.executable}, {found.python}")
    if found.torch:
        version, _, sees = found.torch.partition(" ")
        blind = found.cards and sees != "True"
        mend = "install a torch that is built for its driver" if blind else ""
        yield Finding(f"{where} torch", f"{version}{', which finds no card' if blind else ''}", mend)
    else:
        complaint = one_line(found.complaint) or "it cannot be imported"
        mend = "pip install torch there, or let `python` or `setup` of the profile lead to one"
        yield Finding(f"{where} torch", complaint, mend)
    cards = ", ".join(map(one_line, found.cards)) or f"none; the CPU is {one_line(found.cpu)}"
    yield Finding(f"{where} cards", cards)
    free_gib = found.free_bytes / 2**30
    short = (
        "" if free_gib >= LEAST_GIB else "make room there, or let `folder` of the profile name another disk"
    )
    yield Finding(f"{where} folder", f"{found.folder}, {free_gib:.1f} GiB free", short)
