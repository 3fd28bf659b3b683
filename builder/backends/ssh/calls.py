"""One verb on another machine: its program goes through stdin and runs from memory; only Python is there."""

from __future__ import annotations

import functools
import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from builder.commands import Answer, Runner
from builder.errors import InfrastructureError, RefusedThereError, UsageError
from builder.templating import ROOT
from builder.terminal import one_line

ASK_S = 60.0
SILENCE_S = 60.0  # of a file that is being fetched
_SETUP_FAILED, _NOT_FOUND = 96, 127
_PACKAGES = ("harness", "templates", "templates.there")
_MODULES = (  # each after those that it imports
    "harness.cores",
    "harness.cards",
    "templates.there.processes",
    "templates.there.desk",
    "templates.there.keeper",
    "templates.there.verbs",
)
# Old enough for a Python that is too old to say so; isolated from whatever lies in the home folder.
_BOOT = (
    "import sys; v = sys.version_info; "
    "v >= (3, 10) or sys.exit('Python 3.10 or newer is needed, this is %d.%d' % v[:2]); "
    "exec(sys.stdin.buffer.read(int(sys.argv.pop(1))).decode())"
)
_LOAD = """\
import sys, types
for name, text in {texts}:
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = []
    exec(compile(text, f"<{{name}}>", "exec"), module.__dict__)
from templates.there.verbs import main
main(*sys.argv[1:])
"""

T = TypeVar("T", bound="Reply")


@dataclass(frozen=True)
class Profile:
    """`[backends.ssh.NAME]` of ferry.toml: how a machine, or several that are alike, are used.

    `host` is a name that `ssh` knows, by default the profile's own; `hosts` are several, of which each
    submission goes to the least busy one. `python` runs the kernel and finds torch; `setup` are lines for
    bash before it; `environment` is the kernel's; `folder` is where runs lie there; `devices` are the
    numbers of the cards that runs may have, by default all.
    """

    host: str = ""
    hosts: tuple[str, ...] = ()
    python: str = "python3"
    setup: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    folder: str = "~/ferry-runs"
    devices: tuple[int, ...] = ()


class Reply(msgspec.Struct, kw_only=True):
    """An answer; `problem` is why there is none."""

    problem: str = ""


class Path(Reply):
    """Where a run lies, empty for nowhere."""

    path: str = ""


class States(Reply):
    """Where runs stand, each with what there is to say about it."""

    states: list[tuple[str, str]] = []


class Busy(Reply):
    """How many runs a machine has under way, and how many cards."""

    runs: int = 0
    cards: int = 0


class Listing(Reply):
    """Names and sizes in bytes of the output files; the log's size, -1 where there is none."""

    files: list[tuple[str, int]] = []
    log: int = -1


class Look(Reply):
    """What a machine has for a run; `torch` is its version and whether it finds a card."""

    machine: str = ""
    python: str = ""
    executable: str = ""
    torch: str = ""
    complaint: str = ""
    cards: list[str] = []
    cpu: str = ""
    folder: str = ""
    free_bytes: int = 0


class Calls:
    """The verbs of `templates/there/verbs.py` on one machine."""

    def __init__(self, profile: Profile, runner: Runner) -> None:
        self.profile = profile
        self.runner = runner

    def ask(
        self, kind: type[T], verb: str, *arguments: object, stdin: bytes = b"", timeout_s: float = 0.0
    ) -> T:
        """Return a verb's answer. RefusedThereError: the machine did it not, and said why.

        UsageError where no Python is there that could answer, InfrastructureError for no answer.
        """
        command = self._command(verb, *arguments)
        answer = self.runner.run(command, stdin=program() + stdin, timeout_s=timeout_s or ASK_S)
        if answer.code:
            raise self._failure(answer)
        try:
            reply = msgspec.json.decode(answer.out, type=kind)
        except msgspec.MsgspecError as unfit:
            said = one_line(answer.out.decode(errors="replace"))
            raise InfrastructureError(f"{self.where} answered {said!r:.80} to {verb}") from unfit
        if reply.problem:
            raise RefusedThereError(f"{self.where}: {one_line(reply.problem)}", f"see `ssh {self.where}`")
        return reply

    def stream(self, verb: str, *arguments: object, silence_s: float = SILENCE_S) -> Iterator[bytes]:
        """Yield the bytes that a verb writes. InfrastructureError when they end before they should."""
        return self.runner.stream(self._command(verb, *arguments), stdin=program(), silence_s=silence_s)

    @property
    def where(self) -> str:
        """The machine's name."""
        return self.runner.host or "this machine"

    def _command(self, verb: str, *arguments: object) -> list[str]:
        python = [self.profile.python, "-I", "-c", _BOOT, str(len(program()))]
        command = [*python, verb, *(json.dumps(argument) for argument in arguments)]
        if not self.profile.setup:
            return command
        lines = [f"eval {shlex.quote(line)} >&2 </dev/null || {_no(line)}" for line in self.profile.setup]
        return ["bash", "-c", "; ".join([*lines, 'exec "$@"']), "bash", *command]

    def _failure(self, answer: Answer) -> InfrastructureError | UsageError:
        said, mend = answer.complaint, "see the profile's keys `python` and `setup`"
        if answer.code == _NOT_FOUND:
            return UsageError(f"{self.where} has no {self.profile.python}: {said}", mend)
        if answer.code == _SETUP_FAILED or said.startswith("Python "):
            return UsageError(f"{self.where}: {said}", mend)
        return InfrastructureError(f"{self.where}: {said}", "`ferry doctor` looks what is wrong there")


def _no(line: str) -> str:
    return f"{{ echo {shlex.quote(f'the setup line {line!r} failed')} >&2; exit {_SETUP_FAILED}; }}"


@functools.cache
def program() -> bytes:
    """Return the text that is run there: its modules, under their own names, and the call of its verb."""
    texts = [(name, "") for name in _PACKAGES]
    for name in _MODULES:
        texts.append((name, (ROOT / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8")))
    return _LOAD.format(texts=json.dumps(texts)).encode()
