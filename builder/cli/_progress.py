"""How far a run has come: one line that is written over on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

import click

from builder.announcing import left
from builder.backends import Backend, Status
from builder.cli._output import say
from builder.clock import Clock
from builder.errors import FerryError
from builder.terminal import one_line
from builder.waiting import Watch

_BEGIN = "\r\x1b[K"  # to the line's start, and nothing left of what stood there


@dataclass
class Progress:
    """What is known of the run that is watched. Its line is not shown where stderr is no terminal."""

    clock: Clock
    planned: int = 0
    ended: int = 0
    states: dict[str, str] = field(default_factory=dict)  # by what was submitted
    quota: str = ""

    def __post_init__(self) -> None:
        self._began = self.clock.monotonic()
        self._live = sys.stderr is not None and sys.stderr.isatty()
        self._shown = ""

    def learn(self, watch: Watch, status: Status) -> None:
        """Show a new state, with the quota as it was when the run was first seen."""
        if not self.states:
            self.quota = _quota(watch.backend)
        slug = watch.submission.slug
        if status.state != self.states.get(slug):
            self.states[slug] = status.state
            self.tell(f"{slug} is {status.state} ({self._elapsed()}){self.quota}")
        if status.message:
            self.tell(status.message)
        self.show()

    def case(self, case_id: str, status: str) -> None:
        """Show that a case has ended."""
        self.ended += 1
        self.tell(f"{self.ended}/{self.planned} {case_id} {status}")

    def tell(self, text: str) -> None:
        """Show a line that stays."""
        self.clear()
        say(text)
        self.show()

    def show(self) -> None:
        """Show the line that is written over."""
        if not (self._live and self.states):
            return
        states = ", ".join(dict.fromkeys(self.states.values()))
        line = f"{states} · {self.ended}/{self.planned} cases · {self._elapsed()}{self.quota}"
        if line != self._shown:
            click.echo(_BEGIN + one_line(line), nl=False, err=True)
            self._shown = line

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            click.echo(_BEGIN, nl=False, err=True)
            self._shown = ""

    def _elapsed(self) -> str:
        minutes, seconds = divmod(int(self.clock.monotonic() - self._began), 60)
        return f"{minutes}:{seconds:02}"


def _quota(backend: Backend) -> str:
    try:
        return "".join(f" · {left(quota)}" for quota in backend.quota() if quota.used_s)
    except FerryError:  # it is a comfort, and not what the command is for
        return ""
