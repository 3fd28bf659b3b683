"""Wait for the end of what was submitted. Where the log streams, it is the clock: it ends with the run.

Without a stream each part's state is asked for at the place's own pace; several parts are asked for together.
A local limit that passes is no failure over there: the run goes on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from builder import retry, submission
from builder.backends import Backend, State, Status, Submission
from builder.clock import Clock
from builder.errors import CapacityError, DeniedError, FerryError, InfrastructureError, WaitExpiredError
from builder.runs import Run

IDLE_S = 0.1  # between looks at a stream that has nothing new; the place paces it
CHECK_S = 300.0  # a stream may be silent for ever: so often the state is asked for beside it
SETTLE_S = 5.0  # a state follows the log's end
USEFUL_S = 60.0  # a connection that lasted so long was no vain one
VAIN = 4  # connections in a row that brought nothing, before the stream is given up
AGAIN_S = 600.0  # after which one more connection is tried all the same
YOUNG_S = 5.0  # the first pause in a queue, which may be short
HELD_LIMIT_S = 60.0
QUEUE_LIMIT_S = 12 * 3600.0
UNKNOWN_LIMIT_S = 600.0
SILENCE_LIMIT_S = 900.0
DENIED_LIMIT_S = 60.0
OVERDUE_S = 1800.0  # a run whose own limit passed so long ago will not end by itself


class Watch:
    """One accepted part that is waited for; `patience_s` is the host's, 0 for ever."""

    def __init__(
        self, run: Run, part: int, submission: Submission, backend: Backend, clock: Clock, patience_s: float
    ) -> None:
        self.run = run
        self.part = part
        self.submission = submission
        self.backend = backend
        self.now = Status(State.QUEUED)
        self.has_whole_log = False
        self._clock = clock
        self._patience_s = patience_s
        self._limits = backend.limits()
        self._own_s = run.part_spec(part).timeout_s or self._limits.session_s
        self._began = self._since = self._asked = clock.monotonic()
        self._failing: tuple[int, float] | None = None  # how often in a row, since when
        self._trouble = ""  # what the last question came to instead of an answer
        self._position = 0  # of the log's bytes
        self._vain = 0
        self._gave_up = self._began

    def events(self) -> Iterator[Status | bytes]:
        """Yield each new state and the log's blocks as they come, until the part is over.

        An empty block says that nothing was new. Raises WaitExpiredError when the host's patience ends or a
        limit passes, CapacityError when the place holds the part back, InfrastructureError when it cannot be
        asked any more.
        """
        told = None
        while not self.ask().state.is_over:
            if self.now != told:
                yield self.now
            told = self.now
            if self.now.state is State.RUNNING and self._limits.streams and self._may_stream():
                yield from self._stream()
            else:
                self.nap(self.pause_s())
        if self.now != told:
            yield self.now

    def ask(self) -> Status:
        """Ask for the state, again and again when there is no answer, within limits."""
        while True:
            try:
                now = submission.ask(self.run, self.part, self.submission, self.backend)
            except InfrastructureError as error:
                self._bear(error)
            else:
                return self.learn(now)

    def learn(self, now: Status) -> Status:
        """Take in an answer. Raises when the part has been in a state for longer than is sensible.

        What its place goes on knowing nothing about, and will not remember, is lost.
        """
        self._failing, self._trouble, self._asked = None, "", self._clock.monotonic()
        if now.state is not self.now.state:
            self._since = self._asked
        elif now.state is State.UNKNOWN and 0 < self._limits.forgets_s <= self._asked - self._since:
            now = Status(State.LOST, now.message)
        submission.note(self.run, self.part, now)
        self.now = now
        self._refuse_overdue(self._asked - self._since)
        return now

    def nap(self, seconds: float) -> None:
        """Sleep, but not past the host's patience. WaitExpiredError when that has ended."""
        if self._patience_s:
            left = self._began + self._patience_s - self._clock.monotonic()
            if left <= 0:
                raise self._expired(self._last_heard())
            seconds = min(seconds, left)
        self._clock.sleep(seconds)

    def _last_heard(self) -> str:
        if self._trouble:
            return f"was {self.now.state} when last heard of, and cannot be asked: {self._trouble}"
        return f"is still {self.now.state} after {self._patience_s:g} s"

    def _bear(self, error: InfrastructureError) -> None:
        """Wait before asking again. Raises the error when there was no answer for too long."""
        times, since = self._failing or (0, self._clock.monotonic())
        self._failing, self._trouble = (times + 1, since), error.message
        failing_s = self._clock.monotonic() - since
        limit_s = SILENCE_LIMIT_S
        if isinstance(error, DeniedError):  # which is how a place may speak of what it has only just accepted
            age_s = (
                submission.age_s(self.run, self.part, self._clock) - failing_s
            )  # as it was at the first no
            limit_s = max(DENIED_LIMIT_S, self._limits.grace_s - age_s)
        if failing_s >= limit_s:
            raise error
        self.nap(retry.pause_s(error, times + 1))

    def _refuse_overdue(self, passed_s: float) -> None:
        own_s = self._own_s
        if self.now.state is State.UNKNOWN and passed_s >= UNKNOWN_LIMIT_S:
            raise InfrastructureError(
                f"run {self.run.id} is in a state unknown to ferry: {self.now.message or 'none given'}",
                f"look at it there {self.submission.url}".rstrip() + f"; later: ferry pull {self.run.id}",
            )
        if self.now.state is State.HELD and passed_s >= HELD_LIMIT_S:
            raise CapacityError(
                f"run {self.run.id} is held there and will not start by itself: {self.now.message}",
                f"to give it up: ferry stop {self.run.id}",
            )
        if self.now.state is State.QUEUED and passed_s >= QUEUE_LIMIT_S:
            raise self._expired(f"is still queued after {passed_s / 3600:.0f} h")
        if self.now.state is State.RUNNING and own_s and passed_s >= own_s + OVERDUE_S:
            raise self._expired(
                f"still runs, {(passed_s - own_s) / 60:.0f} min after its own limit",
                f"it may hang: ferry stop {self.run.id}",
            )

    def _expired(self, what: str, hint: str = "") -> WaitExpiredError:
        return WaitExpiredError(f"run {self.run.id} {what}", hint or f"it goes on: ferry pull {self.run.id}")

    def pause_s(self) -> float:
        """How long to wait before asking again: a queue is looked at the more often the younger it is."""
        if self.now.state is not State.QUEUED:
            return self._limits.poll_s
        return min(self._limits.poll_s, max(YOUNG_S, (self._clock.monotonic() - self._since) / 4))

    # --- the stream ---

    def _may_stream(self) -> bool:
        """Whether a connection is worth its request."""
        if self._vain >= VAIN and self._clock.monotonic() - self._gave_up >= AGAIN_S:
            self._vain = VAIN - 1
        return self._vain < VAIN

    def _stream(self) -> Iterator[Status | bytes]:
        """Yield the log through one connection after another, until it is whole or a state is wanted."""
        while self._vain < VAIN:
            opened, had = self._clock.monotonic(), self._position
            try:
                yield from self._connection()
                broke = None
            except InfrastructureError as error:
                broke = error
            if self.now.state.is_over:
                return
            useful = self._position > had or self._clock.monotonic() - opened >= USEFUL_S
            self._vain = 0 if useful else self._vain + 1
            if broke is None:
                break
            if self._vain < VAIN:
                self.nap(retry.pause_s(broke, max(1, self._vain)))
        self._gave_up = self._clock.monotonic()
        if self.has_whole_log and self._vain:
            self.nap(SETTLE_S)

    def _connection(self) -> Iterator[Status | bytes]:
        """Yield what is new through one connection: a place begins again from the start each time."""
        seen = 0
        self.has_whole_log = False
        for block in self.backend.follow_log(self.submission):
            new = block[max(0, self._position - seen) :]
            seen += len(block)
            self._position = max(self._position, seen)
            yield new
            if not block:
                self.nap(IDLE_S)
            if self._clock.monotonic() - self._asked >= CHECK_S and self.ask().state.is_over:
                return
        self.has_whole_log = True


def until_over(watches: Sequence[Watch]) -> Iterator[tuple[Watch, Status | bytes]]:
    """Watch several parts to their ends: while there is more than one, all are asked for in one go.

    Yields each with what is new of it; the last one is followed by its log. One that cannot be waited for
    costs no other: what it raises, as `Watch.events` does, comes when the others are over.
    """
    waiting, problems = list(watches), list[FerryError]()
    while len(waiting) > 1:
        before = {watch: watch.now for watch in waiting}
        lost = _ask_all(waiting)
        problems += lost.values()
        for watch in waiting:
            if watch.now != before[watch]:
                yield watch, watch.now
        waiting = [watch for watch in waiting if not (watch.now.state.is_over or watch in lost)]
        if len(waiting) > 1:
            waiting[0].nap(max(watch.backend.limits().poll_s for watch in waiting))
    for watch in waiting:
        for seen in watch.events():
            yield watch, seen
    for problem in problems:
        raise problem


def _ask_all(watches: Sequence[Watch]) -> dict[Watch, FerryError]:
    """Ask each place once about all that it has; when it fails, about one after another.

    Returns those that cannot be waited for, with the reason.
    """
    lost: dict[Watch, FerryError] = {}
    for name in dict.fromkeys(watch.backend.name for watch in watches):
        there = [watch for watch in watches if watch.backend.name == name]
        answers: Sequence[Status | None] = [None] * len(there)
        with contextlib.suppress(FerryError):
            answers = there[0].backend.status([watch.submission for watch in there])
        for watch, now in zip(there, answers, strict=True):
            try:
                watch.learn(now) if now else watch.ask()
            except FerryError as problem:
                problem.run_id = watch.run.id
                lost[watch] = problem
    return lost
