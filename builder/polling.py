"""Ask places about all that each has, at each one's own pace; one that is silent holds up no other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from builder import retry, submission
from builder.backends import Backend, State, Status
from builder.clock import Clock
from builder.dealing import Held
from builder.errors import DeniedError, FerryError, InfrastructureError
from builder.waiting import DENIED_LIMIT_S, SILENCE_LIMIT_S, Watch

Answer = Status | FerryError


@dataclass
class Track:
    """How a part is followed; without a watch no place has taken it, as far as is known."""

    held: Held
    watch: Watch | None = None
    again_s: float = 0.0
    told: str = ""
    stopped_s: float | None = None


class Polls:
    """When each place is to be asked next, and since when one has not answered."""

    def __init__(self, places: Mapping[str, Backend], clock: Clock) -> None:
        self._places = places
        self._clock = clock
        self._next_s = dict.fromkeys(places, 0.0)
        self._silent: dict[str, tuple[int, float]] = {}  # how often in a row, since when

    def next_s(self, names: Sequence[str]) -> float:
        """Return when one of these places is to be asked next."""
        return min((self._next_s[name] for name in names), default=math.inf)

    def look(
        self, watches: Iterable[Watch], place_of: Callable[[Watch], str]
    ) -> tuple[dict[Watch, Answer], dict[str, InfrastructureError]]:
        """Ask each place whose turn it is; return the answers, and the places silent for too long.

        An error as an answer is final: the part can be waited for no longer.
        """
        answers: dict[Watch, Answer] = {}
        silent: dict[str, InfrastructureError] = {}
        there: dict[str, list[Watch]] = {}
        for watch in watches:
            there.setdefault(place_of(watch), []).append(watch)
        for name, theirs in there.items():
            if self._clock.monotonic() >= self._next_s[name]:
                try:
                    answers |= self._ask(name, theirs)
                except InfrastructureError as silence:
                    silent[name] = silence
        return answers, silent

    def _ask(self, name: str, watches: Sequence[Watch]) -> dict[Watch, Answer]:
        try:
            told = self._places[name].status([watch.submission for watch in watches])
        except DeniedError:
            answers = {watch: self._alone(watch) for watch in watches}
        except InfrastructureError as silence:
            self._bear(name, silence)
            return {}
        else:
            answers = dict(zip(watches, told, strict=True))
        self._silent.pop(name, None)
        found = {watch: _learned(watch, answer) for watch, answer in answers.items() if answer}
        pause_s = min((watch.pause_s() for watch in watches), default=0.0)
        self._next_s[name] = self._clock.monotonic() + pause_s
        return found

    def _alone(self, watch: Watch) -> Answer | None:
        """Ask about one part; a denial counts once its place must know of the part."""
        try:
            return submission.ask(watch.run, watch.part, watch.submission, watch.backend)
        except DeniedError as denied:
            age_s = submission.age_s(watch.run, watch.part, self._clock)
            if age_s < max(DENIED_LIMIT_S, watch.backend.limits().grace_s):
                return None
            return Status(State.LOST, denied.message)
        except InfrastructureError:
            return None

    def _bear(self, name: str, silence: InfrastructureError) -> None:
        times, since_s = self._silent.get(name, (0, self._clock.monotonic()))
        self._silent[name] = (times + 1, since_s)
        now_s = self._clock.monotonic()
        self._next_s[name] = now_s + retry.pause_s(silence, times + 1)
        if now_s - since_s >= SILENCE_LIMIT_S:
            raise silence


def _learned(watch: Watch, answer: Answer) -> Answer:
    if isinstance(answer, FerryError):
        return answer
    try:
        return watch.learn(answer)
    except FerryError as problem:  # it is held there, unknown or overdue for too long
        return problem
