"""Waiting for a run of an hour, on a clock that is not waited for, with every request counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from builder import runs, submission
from builder.backends import Limits, State, Status, Submission
from builder.backends.manual import Manual
from builder.errors import CapacityError, DeniedError, InfrastructureError, WaitExpiredError
from builder.runs import Run
from builder.spec import RunSpec
from builder.waiting import Watch, until_over
from tests.unit.clocks import Hourglass

HOUR = 3600.0
TICK_S = 1.0
KAGGLE = Limits(sessions=2, session_s=12 * HOUR, poll_s=45.0, grace_s=300.0, streams=True)


class Service(Manual):
    """A place where a run takes an hour by the clock; a connection of its stream lasts `cut_s`."""

    name = "service"

    def __init__(self, clock: Hourglass, streams: bool = True, cut_s: float = HOUR) -> None:
        self.clock = clock
        self.streams, self.cut_s = streams, cut_s
        self.queued_s, self.ends_s = 0.0, HOUR
        self.ending = Status(State.DONE)
        self.errors: list[InfrastructureError] = []
        self.requests = 0
        self.waits: list[float] = []

    def limits(self) -> Limits:
        """Kaggle's."""
        return KAGGLE if self.streams else replace(KAGGLE, streams=False)

    def status(self, submissions: Sequence[Submission]) -> list[Status]:
        """Answer by the clock."""
        self.requests += 1
        if self.errors:
            raise self.errors.pop(0)
        return [self._state()] * len(submissions)

    def _state(self) -> Status:
        if self.clock.monotonic() < self.queued_s:
            return Status(State.QUEUED)
        return self.ending if self.clock.monotonic() >= self.ends_s else Status(State.RUNNING)

    def follow_log(self, submission: Submission) -> Iterator[bytes]:
        """Say a line a minute, from the start on each connection."""
        self.requests += 1
        opened, said = self.clock.monotonic(), 0
        while self.clock.monotonic() < self.ends_s:
            while said < self.clock.monotonic() // 60:
                yield f"line {said}\n".encode()
                said += 1
            if self.clock.monotonic() - opened >= self.cut_s:
                raise InfrastructureError("cut")
            self.clock.sleep(TICK_S)
            yield b""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run with two parts that nobody has accepted."""
    monkeypatch.setenv("FERRY_RUNS", str(tmp_path))
    with runs.create(RunSpec("smoke", (), run_id="20261130-101112-abcdef")) as draft:
        for part in (1, 2):
            draft.part(part).mkdir(parents=True)
    return Run(tmp_path / "20261130-101112-abcdef")


def watch(run: Run, place: Service, patience_s: float = 0.0, part: int = 1) -> Watch:
    """Submit a part and watch it."""
    accepted = submission.submit(run, part, place, place.clock)
    return Watch(run, part, accepted, place, place.clock, patience_s)


def seen(run: Run, place: Service, patience_s: float = 0.0) -> tuple[list[State], bytes]:
    """Watch a part to its end: its states, and its log."""
    found = list(watch(run, place, patience_s).events())
    states = [news.state for news in found if isinstance(news, Status)]
    return states, b"".join(news for news in found if isinstance(news, bytes))


@pytest.mark.parametrize("cut_s", [HOUR, 180.0, 120.0])
def test_the_stream_is_the_clock(run: Run, cut_s: float) -> None:
    """An hour costs at most 60 requests and its end is seen within 15 s, however often the stream is cut."""
    place = Service(Hourglass(), cut_s=cut_s)
    states, log = seen(run, place)
    assert states == [State.RUNNING, State.DONE]
    assert place.requests <= 60
    assert place.clock.monotonic() - HOUR <= 15
    assert log == b"".join(f"line {number}\n".encode() for number in range(60))[: len(log)]
    assert log.count(b"\n") >= 59


def test_without_the_stream_one_call_each_45_s(run: Run) -> None:
    """The state is asked for every 45 s, and the end is seen within 50 s."""
    place = Service(Hourglass(), streams=False)
    assert seen(run, place)[0] == [State.RUNNING, State.DONE]
    assert place.requests <= HOUR / 45 + 2
    assert place.clock.monotonic() - HOUR <= 50


def test_a_stream_that_never_comes_is_given_up(run: Run) -> None:
    """When no connection brings anything, the state is asked for instead, at the same pace."""
    place = Service(Hourglass(), cut_s=-1.0)
    place.ends_s = 600.0
    assert seen(run, place)[0] == [State.RUNNING, State.DONE]
    assert place.clock.monotonic() - 600 <= 50


def test_a_stream_that_comes_late_is_taken_up_again(run: Run) -> None:
    """A stream that was given up is tried once in ten minutes, and then is the clock again."""
    place = Service(Hourglass(), cut_s=-1.0)
    real = place.follow_log

    def late(accepted: Submission) -> Iterator[bytes]:
        place.cut_s = -1.0 if place.clock.monotonic() < 500 else HOUR
        return real(accepted)

    place.follow_log = late  # type: ignore[assignment,method-assign]
    states, log = seen(run, place)
    assert states == [State.RUNNING, State.DONE]
    assert log.count(b"\n") >= 59
    assert place.requests <= 60
    assert place.clock.monotonic() - HOUR <= 15


def test_a_young_queue_is_looked_at_more_often(run: Run) -> None:
    """A run that starts after half a minute is seen to start within a few seconds, at little cost."""
    place = Service(Hourglass())
    place.queued_s = place.ends_s = 30.0
    seen(run, place)
    assert place.clock.monotonic() - 30 <= 10
    assert place.requests <= 7


def test_a_silent_stream_is_not_believed_for_ever(run: Run) -> None:
    """Beside a stream that neither speaks nor ends, the state is asked for every five minutes."""
    place = Service(Hourglass())
    place.ends_s = 1000.0
    place.follow_log = lambda _: _silence(place.clock)  # type: ignore[assignment,method-assign]
    assert seen(run, place)[0] == [State.RUNNING, State.DONE]
    assert place.clock.monotonic() - 1000 <= 310


def _silence(clock: Hourglass) -> Iterator[bytes]:
    while True:
        clock.sleep(TICK_S)
        yield b""


@pytest.mark.parametrize("ending", [State.FAILED, State.CANCELLED, State.LOST, State.REFUSED])
def test_every_end_ends_the_wait(run: Run, ending: State) -> None:
    """Whatever the last state is, one question after it is enough."""
    place = Service(Hourglass(), streams=False)
    place.ends_s, place.ending = 0.0, Status(ending, "why")
    assert seen(run, place)[0] == [ending]
    assert place.requests == 1
    assert run.state(1) == ending


def test_the_queue_has_a_limit_of_its_own(run: Run) -> None:
    """A run that is queued for half a day is not awaited any longer; that is no failure over there."""
    place = Service(Hourglass())
    place.queued_s = place.ends_s = 100 * HOUR
    with pytest.raises(WaitExpiredError, match="still queued after 12 h") as raised:
        seen(run, place)
    assert int(raised.value.exit_code) == 124
    assert run.state(1) == State.QUEUED


def test_a_run_that_outlives_its_limit_is_told(run: Run) -> None:
    """Half an hour after the session's own limit the wait ends, and says how the run may be ended."""
    place = Service(Hourglass(), streams=False)
    place.ends_s = 100 * HOUR
    with pytest.raises(WaitExpiredError, match="30 min after its own limit") as raised:
        seen(run, place)
    assert "ferry stop" in raised.value.hint


def test_unknown_is_a_state_with_a_limit(run: Run) -> None:
    """A word that nobody knows is awaited for ten minutes and then shown, exit 5."""
    place = Service(Hourglass(), streams=False)
    place.ends_s, place.ending = 0.0, Status(State.UNKNOWN, "the service says 'pondering'")
    with pytest.raises(InfrastructureError, match="pondering"):
        seen(run, place)
    assert 600 <= place.clock.monotonic() <= 650
    assert run.state(1) == State.UNKNOWN


def test_a_young_run_may_be_denied_for_a_while(run: Run) -> None:
    """404 right after a push is the service's own delay."""
    place = Service(Hourglass(), streams=False)
    place.errors = [DeniedError("404")] * 8
    assert seen(run, place)[0] == [State.RUNNING, State.DONE]


def test_a_young_run_has_the_whole_of_its_grace(run: Run) -> None:
    """What the service knows nothing of for ever is asked about for five minutes after the push, not less."""
    place = Service(Hourglass(), streams=False)
    watched = watch(run, place)
    place.errors = [DeniedError("404")] * 1000
    with pytest.raises(DeniedError):
        list(watched.events())
    assert 298 <= place.clock.monotonic() <= 370


def test_a_denial_of_an_old_run_ends_the_wait(run: Run) -> None:
    """401, 403 and 404 end it after a minute, with the service's reason."""
    place = Service(Hourglass(), streams=False)
    watched = watch(run, place)
    place.clock.sleep(1000.0)
    place.errors = [DeniedError("no such kernel, or not yours")] * 1000
    with pytest.raises(DeniedError, match="no such kernel"):
        list(watched.events())
    assert 60 <= place.clock.monotonic() - 1000 <= 130


def test_a_silent_service_is_asked_for_a_quarter_of_an_hour(run: Run) -> None:
    """Errors are borne with growing pauses, and Retry-After is obeyed."""
    place = Service(Hourglass(), streams=False)
    place.errors = [InfrastructureError("429", retry_after_s=200.0), *[InfrastructureError("503")] * 1000]
    with pytest.raises(InfrastructureError, match="503"):
        seen(run, place)
    assert place.clock.naps[0] == 200.0
    assert 900 <= place.clock.monotonic() <= 1000
    assert place.requests < 30


def test_what_a_forgetful_place_does_not_know_is_lost(run: Run) -> None:
    """Where nothing comes back that is unknown once, the wait ends after the place's own time for it."""
    place = Service(Hourglass(), streams=False)
    place.ends_s, place.ending = 0.0, Status(State.UNKNOWN, "it knows no such job")
    place.limits = lambda: replace(KAGGLE, streams=False, forgets_s=120.0)  # type: ignore[method-assign]
    assert seen(run, place)[0] == [State.UNKNOWN, State.LOST]
    assert 120 <= place.clock.monotonic() <= 120 + KAGGLE.poll_s


def test_what_is_held_there_is_not_waited_for(run: Run) -> None:
    """A part that its place will never start ends the wait after a minute, with the place's reason."""
    place = Service(Hourglass(), streams=False)
    place.ends_s, place.ending = 0.0, Status(State.HELD, "PartitionTimeLimit")
    with pytest.raises(CapacityError, match="PartitionTimeLimit"):
        seen(run, place)
    assert 60 <= place.clock.monotonic() <= 60 + KAGGLE.poll_s


def test_patience_ends_in_the_middle_of_a_stream(run: Run) -> None:
    """The host's patience is its own: 124 while the log still comes."""
    place = Service(Hourglass())
    with pytest.raises(WaitExpiredError, match="still running after 100 s"):
        seen(run, place, 100.0)
    assert 100 <= place.clock.monotonic() <= 102


def test_one_that_is_lost_costs_no_other(run: Run) -> None:
    """Of two that are waited for the one that is denied is told at the end, when the other is over."""
    place = Service(Hourglass(), streams=False)
    watches = [watch(run, place, part=n) for n in (1, 2)]
    place.clock.sleep(1000.0)
    answer = place.status

    def status(submissions: Sequence[Submission]) -> list[Status]:
        if any(one.slug.endswith("-1") for one in submissions):
            raise DeniedError("no such kernel")
        return answer(submissions)

    place.status = status  # type: ignore[method-assign]
    over = []
    with pytest.raises(DeniedError, match="no such kernel"):
        over += [one.part for one, news in until_over(watches) if news == Status(State.DONE)]
    assert watches[1].now.state is State.DONE
    assert place.clock.monotonic() - HOUR <= 50


def test_one_poller_for_several_parts(run: Run) -> None:
    """Two parts cost one question each 45 s together; the last one left is followed by its log."""
    place = Service(Hourglass())
    found = [
        (watched.part, news) for watched, news in until_over([watch(run, place, part=n) for n in (1, 2)])
    ]
    assert [part for part, news in found if isinstance(news, Status) and news.state is State.DONE] == [1, 2]
    assert place.requests <= HOUR / 45 + 3
