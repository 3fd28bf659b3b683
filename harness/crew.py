"""The two processes on a card: who is there, who must be fresh, under which user. Standard library only."""

from __future__ import annotations

import os
from pathlib import Path

from harness.cards import Card
from harness.chatter import Relay
from harness.environment import Setting, for_judge, for_worker, setting_of
from harness.exchange import Exchange
from harness.isolation import Identity, isolate
from harness.limits import CaseFailureError
from harness.process import ROOT, Child
from harness.shapes import FRESH_WORKER, Case


class Crew:
    """A card's judge, and its worker of the moment."""

    def __init__(self, card: Card, scratch: Path, exchange: Exchange, relay: Relay) -> None:
        self.judge: Child | None = None
        self.worker: Child | None = None
        self._card = card
        self._scratch = scratch
        self._exchange = exchange
        self._relay = relay
        self._setting: Setting | None = None  # what the worker was started for
        self._used = False  # whether the worker has served a case
        self._isolation: Identity | str = ""  # the worker's user, or why it has none of its own

    @property
    def pids(self) -> list[int]:
        """The processes' numbers."""
        return [child.pid for child in (self.judge, self.worker) if child]

    @property
    def isolated(self) -> str:
        """Whether workers have a user of their own, or why not."""
        return "yes" if self._isolated() else f"no: {self._isolation}"

    def put_to_use(self) -> bool:
        """Note that the worker serves a case now; return whether it is its first."""
        is_first, self._used = not self._used, True
        return is_first

    def hire_judge(self) -> Child:
        """Return the judge; a new one if there is none."""
        if self.judge is None:
            self.judge = self._hire("judge", for_judge(os.environ, self._card, self._scratch / "judge"))
        return self.judge

    def hire_worker(self, case: Case) -> Child:
        """Return the worker that is there if it may serve the case, else a new one."""
        if self._setting != setting_of(case) or (self._used and case.protocol in FRESH_WORKER):
            self.end_worker()
        if self.worker is None:
            self.worker = self._hire("worker", self._environment_of_worker(case), self._isolated())
            self._setting, self._used = setting_of(case), False
        return self.worker

    def _environment_of_worker(self, case: Case) -> dict[str, str]:
        identity = self._isolated()
        environment = for_worker(os.environ, self._card, self._scratch / "worker", case)
        return environment | (identity.environment() if identity else {})

    def _isolated(self) -> Identity | None:
        """Return the user for this card's workers, if one can work here; it is tried once."""
        if not self._isolation:
            home = self._scratch / "worker"
            self._isolation = isolate(
                self._card.torch_device, for_judge(os.environ, self._card, home), home, ROOT
            )
            if isinstance(self._isolation, Identity):
                self._exchange.grant(self._isolation.uid)
        return self._isolation if isinstance(self._isolation, Identity) else None

    def _hire(self, name: str, environment: dict[str, str], identity: Identity | None = None) -> Child:
        try:
            return Child(
                name,
                self._card.torch_device,
                environment,
                lambda data: self._relay.hear(name, data),
                identity,
            )
        except OSError as problem:
            words = f"the {name} could not be started: {problem}"
            raise CaseFailureError("error", type(problem).__name__, words) from problem

    def end_judge(self) -> None:
        """Part with the judge."""
        if self.judge is not None:
            self.judge.end()
        self.judge = None

    def end_worker(self) -> None:
        """Part with the worker, and with what it has handed over."""
        if self.worker is not None:
            self.worker.end()
        self.worker = self._setting = None
        self._exchange.clear()
