"""Several places as one: each question goes to the place that a part went to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from builder.backends import Backend, Finding, Intent, Limits, OutputFile, Quota, Status, Submission
from builder.errors import BugError
from builder.runs import Run


class Several:
    """The places of one run, by their names. What is asked of no part is asked of all."""

    def __init__(self, places: Iterable[tuple[str, Backend]]) -> None:
        self.places = dict(places)
        self.name = ",".join(self.places)

    def submit(self, intent: Intent) -> Submission:
        """Hand a part to its own place; what it is accepted as says which one that is."""
        name = _place_of(intent)
        return replace(self.places[name].submit(intent), backend=name)

    def find(self, intent: Intent) -> Submission | None:
        """Ask a part's own place."""
        name = _place_of(intent)
        found = self.places[name].find(intent)
        return replace(found, backend=name) if found else None

    def status(self, submissions: Sequence[Submission]) -> list[Status]:
        """Ask each place once about all that it has."""
        found: dict[Submission, Status] = {}
        for name, place in self.places.items():
            theirs = [one for one in submissions if one.backend == name]
            if theirs:
                found |= dict(zip(theirs, place.status(theirs), strict=True))
        return [found[one] for one in submissions]

    def follow_log(self, submission: Submission) -> Iterator[bytes]:
        """Follow it where it runs."""
        return self._of(submission).follow_log(submission)

    def fetch_log(self, submission: Submission, target: Path) -> None:
        """Fetch it from where it ran."""
        self._of(submission).fetch_log(submission, target)

    def list_outputs(self, submission: Submission) -> Iterator[OutputFile]:
        """List them where it ran."""
        return self._of(submission).list_outputs(submission)

    def fetch_output(self, submission: Submission, file: OutputFile) -> Iterator[bytes]:
        """Fetch it from where it ran."""
        return self._of(submission).fetch_output(submission, file)

    def stop(self, submission: Submission) -> None:
        """Stop it where it runs."""
        self._of(submission).stop(submission)

    def limits(self) -> Limits:
        """What holds for whoever deals with all of them at once."""
        every = [place.limits() for place in self.places.values()]
        return Limits(
            rehearse=any(one.rehearse for one in every),
            poll_s=max(one.poll_s for one in every),
            grace_s=max(one.grace_s for one in every),
            stop_deletes=any(one.stop_deletes for one in every),
        )

    def account(self) -> str:
        """Return the accounts that pushes go to."""
        return " and ".join(filter(None, (place.account() for place in self.places.values())))

    def quota(self) -> list[Quota]:
        """Return what each account has left."""
        return [one for place in self.places.values() for one in place.quota()]

    def remarks(self) -> list[str]:
        """Return what each place has to remark."""
        return [one for place in self.places.values() for one in place.remarks()]

    def active(self) -> list[str]:
        """Return what is under way at any of them."""
        return [one for place in self.places.values() for one in place.active()]

    def checks(self) -> Iterator[Finding]:
        """Look at each."""
        for place in self.places.values():
            yield from place.checks()

    def _of(self, submission: Submission) -> Backend:
        return self.places[submission.backend]


def _place_of(intent: Intent) -> str:
    name = Run(intent.folder.parent.parent).part_spec(intent.part).backend
    if "," in name:
        raise BugError(f"part {intent.part} of run {intent.run_id} belongs to no one place")
    return name
