"""Any machine that somebody can reach by hand: they carry the kernel there and bring its log back."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from builder.backends import Intent, Limits, OutputFile, State, Status, Submission, Unmetered
from builder.errors import IncompleteError
from builder.runs import place, runs_root

INSTRUCTIONS = """\
1. carry {kernel} to the machine that shall run it, which needs Python 3.10 or newer and torch
2. there:  python3 kernel.py --deadline 9m > ferry.log 2>&1   (ferry-events.jsonl appears beside it)
3. here:   ferry import {run} ferry.log ferry-events.jsonl"""


class Manual(Unmetered):
    """Accepts everything and waits."""

    name = "manual"

    def submit(self, intent: Intent) -> Submission:
        """Nothing to send: the kernel is on disk."""
        return Submission(self.name, place(intent.folder), intent.slug)

    def find(self, intent: Intent) -> Submission | None:
        """A kernel on disk is as good as accepted."""
        return self.submit(intent)

    def status(self, submissions: Sequence[Submission]) -> list[Status]:
        """Waiting for somebody; the message says what to do."""
        statuses = []
        for submission in submissions:
            folder = runs_root() / submission.reference
            told = INSTRUCTIONS.format(
                kernel=shlex.quote(str(folder / "kernel.py")), run=folder.parent.parent.name
            )
            imported = (folder / "log.raw").exists()
            statuses.append(Status(State.DONE) if imported else Status(State.QUEUED, told))
        return statuses

    def follow_log(self, submission: Submission) -> Iterator[bytes]:
        """There is no log to follow from here."""
        return iter(())

    def fetch_log(self, submission: Submission, target: Path) -> None:
        """The log comes by `ferry import`."""
        raise IncompleteError("this run's log is brought back by hand", "see `ferry status` for the steps")

    def list_outputs(self, submission: Submission) -> Iterator[OutputFile]:
        """Outputs come by `ferry import`."""
        return iter(())

    def fetch_output(self, submission: Submission, file: OutputFile) -> Iterator[bytes]:
        """There is none to fetch from here."""
        return iter(())

    def stop(self, submission: Submission) -> None:
        """Whoever runs it stops it."""

    def limits(self) -> Limits:
        """As many as there are hands."""
        return Limits(by_hand=True)


BACKEND = Manual
