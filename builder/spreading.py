"""Carry one run over several places: deal it part by part and take in what comes, until all is done.

All that is known stands on disk: a part's folder has its cases and its place before it is pushed, the journal
says what became of it. Whoever is killed is followed by another who reads that; a lock keeps it to one.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence

from builder import reading, stopping, submission, together
from builder.backends import State, Status, Submission
from builder.clock import Clock
from builder.dealing import Costs, Dealer
from builder.errors import (
    REFUSALS,
    Exit,
    FerryError,
    InfrastructureError,
    NoSlotError,
    WaitExpiredError,
    worst,
)
from builder.outputs import EVERYTHING, Wanted
from builder.parting import Parts
from builder.places import Known
from builder.polling import Polls, Track
from builder.runs import Run
from builder.standing import Standing
from builder.waiting import Watch
from harness.events import FINAL_STATUSES

Tell = Callable[[str], None]

AGAIN_S = 60.0  # between two tries to push a part
FAREWELL_S = 60.0  # for a part that nobody needs any more to end
NAP_S, LEAST_NAP_S = 5.0, 0.05  # no longer, so that `ferry stop` is heard


class Spread:
    """One run that is dealt."""

    def __init__(
        self,
        run: Run,
        known: Mapping[str, Known],
        costs: Costs,
        clock: Clock,
        tell: Tell,
        parts: Parts | None = None,
    ) -> None:
        self.run = run
        self.spec = run.spec
        self.problems: list[FerryError] = []
        self._cases = {case.id: case for case in self.spec.cases}
        self._places = known
        self._clock = clock
        self._tell = tell
        self._parts = parts or Parts(run)
        self._polls = Polls({name: one.backend for name, one in known.items()}, clock)
        rooms = [one.place for one in known.values()]
        self._dealer = Dealer(rooms, costs, self.spec.budget_s or math.inf)
        slots = {place.name: place.slots for place in rooms}
        self._standing = Standing(self._dealer, slots, self._cases)
        self._standing.finish(self.spec.known)
        self._tracks: dict[int, Track] = {}
        self._loose: dict[int, set[str]] = {}  # parts that did not come whole, with their cases
        self._restore()

    def _restore(self) -> None:
        """Take up what is on disk."""
        for part in self.run.parts():
            if self.run.state(part) == "withdrawn":
                continue
            spec = self.run.part_spec(part)
            ids = [case.id for case in spec.cases]
            self._dealer.use(spec.backend, self._dealer.expected_s(spec.backend, ids))
            if self.run.has_come(part):
                self._standing.finish(self._results(part))
            else:
                self._hold(part, spec.backend, ids)
        self._standing.begin(self.spec.left_out)

    def _hold(self, part: int, place: str, cases: Sequence[str]) -> Track:
        accepted = self.run.submission(part)
        runs = self.run.told(part) is State.RUNNING
        state = State.RUNNING if runs else State.QUEUED
        age_s = submission.age_s(self.run, part, self._clock, state) if accepted else 0.0
        track = Track(self._standing.hold(part, place, cases, self._clock.monotonic() - age_s))
        track.held.runs = runs
        track.watch = self._watch(part, accepted, place) if accepted else None
        self._tracks[part] = track
        return track

    def _watch(self, part: int, accepted: Submission, place: str) -> Watch:
        return Watch(self.run, part, accepted, self._places[place].backend, self._clock, 0.0)

    def _results(self, part: int) -> set[str]:
        """Return the cases that a part's logs have a result of; wrong hardware closes its place."""
        records = reading.of_part(self.run, part)
        if records is None:
            return set()
        if records.end_reason == "wrong_accelerator":
            self._dealer.close(self.run.part_spec(part).backend)
        return {record.case.id for record in records.cases if record.status in FINAL_STATUSES}

    # --- the loop -----------------------------------------------------------------------------------------

    def carry(self, patience_s: float = 0.0, wanted: Wanted = EVERYTHING) -> Exit:
        """Deal and take in until nothing is left to do; return what the places' refusals amount to.

        Raises WaitExpiredError when the host's patience ends, InfrastructureError when no place answers.
        """
        began_s = self._clock.monotonic()
        while self.step(wanted):
            if patience_s and self._clock.monotonic() - began_s >= patience_s:
                said = f"run {self.run.id} is not over after {patience_s:g} s"
                raise WaitExpiredError(said, f"what was dealt goes on: ferry pull {self.run.id}")
            self._clock.sleep(self._nap_s())
        self._settle()
        if self.problems and not any(self.run.submission(part) for part in self.run.parts()):
            raise self.problems[0]
        return (
            worst(*(problem.exit_code for problem in self.problems))
            if self._standing.lacking(self.spec.left_out)
            else Exit.OK
        )

    def step(self, wanted: Wanted = EVERYTHING) -> bool:
        """Look once at everything, and do what can be done now; return whether a part is under way."""
        silent = self._poll(wanted)
        for name in silent:
            self._dealer.close(name)
        if self.run.state(0) != "stopped":
            self._deal()
        self._part_with_the_needless()
        heard = [track for track in self._tracks.values() if track.watch and track.held.place not in silent]
        if silent and not heard:
            raise next(iter(silent.values()))
        return bool(self._tracks)

    def _nap_s(self) -> float:
        asked = [track.held.place for track in self._tracks.values() if track.watch]
        times = [track.again_s for track in self._tracks.values() if not track.watch]
        next_s = min([*times, self._polls.next_s(asked)]) - self._clock.monotonic()
        return min(NAP_S, max(LEAST_NAP_S, next_s))

    def _settle(self) -> None:
        """Nothing more will be dealt: say so once, so that the run's rows are its last."""
        for part, cases in self._loose.items():
            if cases <= self._standing.done:
                self.run.record("withdrawn", part, "other parts have its cases")
        if self.run.is_open:
            count = len(self._standing.lacking(self.spec.left_out))
            self.run.record("dealt", detail=f"{count} cases found no place" if count else "")
            if count:
                self._tell(f"{count} cases have no result: no place has time for them, or lost them")

    # --- what comes ---------------------------------------------------------------------------------------

    def _poll(self, wanted: Wanted) -> Mapping[str, InfrastructureError]:
        """Ask each place whose turn it is; return those that have been silent for too long."""
        by_watch = {track.watch: track for track in self._tracks.values() if track.watch}
        answers, silent = self._polls.look(by_watch, lambda watch: by_watch[watch].held.place)
        for watch, answer in answers.items():
            self._learn(by_watch[watch], answer, wanted)
        return silent

    def _learn(self, track: Track, answer: Status | FerryError, wanted: Wanted) -> None:
        part, place = track.held.part, track.held.place
        if isinstance(answer, FerryError):
            self._tell(f"part {part} on {place} is waited for no longer: {answer.message}")
            self._release(track)
            return
        if answer.state.is_over:
            self._take(track, answer, wanted)
        else:
            self._say(track, f"part {part} on {place} is {answer.state} {answer.message}".rstrip())
        if answer.state is State.RUNNING and not track.held.runs:
            track.held.runs, track.held.since_s = True, self._clock.monotonic()

    def _say(self, track: Track, text: str) -> None:
        """Say what is new of a part, once."""
        if text != track.told:
            self._tell(text)
        track.told = text

    def _take(self, track: Track, now: Status, wanted: Wanted) -> None:
        """Bring what is over, and take its results in."""
        part, watch = track.held.part, track.watch
        assert watch
        submission.note(self.run, part, now)
        if not self.run.has_come(part):
            with contextlib.suppress(FerryError):  # what is missing is dealt again, and named in the end
                submission.fetch(self.run, part, watch.submission, watch.backend, self._clock, wanted)
        self._take_in(track, now.state)

    def _take_in(self, track: Track, state: str) -> None:
        """Take in the results of a part that is here, as far as it came."""
        part, place = track.held.part, track.held.place
        planned, results = len(self.run.part_spec(part).cases), self._results(part)
        self._standing.finish(results)
        self._release(track)
        in_all = f"{len(self._standing.done)} of {len(self._cases)} in all"
        self._tell(f"part {part} on {place} is {state}: it has {len(results)} of {planned} results, {in_all}")

    def _release(self, track: Track) -> None:
        """Let go of a part; what it owes is dealt again."""
        del self._tracks[part := track.held.part]
        spent_s = self._clock.monotonic() - track.held.since_s if track.watch else 0.0
        cases = [case.id for case in self.run.part_spec(part).cases]
        self._standing.release(part, cases, spent_s)
        if not self.run.has_come(part):
            self._loose[part] = {*cases}

    # --- what goes ----------------------------------------------------------------------------------------

    def _deal(self) -> None:
        for track in [*self._tracks.values()]:
            late = self._clock.monotonic() >= track.again_s
            if late and not track.watch and self.run.state(track.held.part):  # it was tried already
                self._submit(track)
        for held in self._standing.late(self._clock.monotonic()):
            self._hurry(self._tracks[held.part])
        self._deal_waiting()

    def _hurry(self, track: Track) -> None:
        """Have the rest of a late part done by others: it ends where that loses nothing, else both go on."""
        held = track.held
        deletes = self._places[held.place].backend.limits().stop_deletes
        if track.watch and not deletes and self._standing.may_cut(held):
            self._tell(
                f"part {held.part} on {held.place} is late: it is stopped, and what it lacks dealt anew"
            )
            self._standing.cut(held)
            self._stop(track)
        else:
            self._tell(f"part {held.part} on {held.place} is late: its cases are dealt once more")
            self._standing.share(held)

    def _deal_waiting(self) -> None:
        unsent = [one for one in self._tracks.values() if not (one.watch or self.run.state(one.held.part))]
        for name, known in self._places.items():
            fresh = [one for one in unsent if one.held.place == name]
            while self._standing.is_free(name) and (chosen := self._dealer.take(name)):
                cases = (self._cases[case] for case in chosen)
                part = self._parts.add(name, cases, known.backend.limits())
                fresh.append(self._hold(part, name, chosen))
            parts = [track.held.part for track in fresh]
            with contextlib.suppress(FerryError):  # then each is submitted, or refused, by itself
                together.submit_fresh(self.run, parts, known.backend, self._tell)
            for track in fresh:
                self._submit(track)

    def _submit(self, track: Track) -> None:
        part, place = track.held.part, track.held.place
        track.again_s = self._clock.monotonic() + AGAIN_S
        backend = self._places[place].backend
        try:
            accepted = submission.submit(self.run, part, backend, self._clock, self._tell, True)
        except NoSlotError as full:
            self._say(track, f"part {part} waits for a free session on {place}: {full.message}")
        except REFUSALS as refusal:
            self._tell(f"{place} takes no part {part}: {refusal.message}")
            self.problems.append(refusal)
            self._dealer.close(place)
            self.run.record("withdrawn", part, refusal.message)
            self._release(track)
        except InfrastructureError as silence:  # it may have been accepted: it is asked for again
            self._say(track, f"part {part} on {place} had no answer: {silence.message}")
        else:
            track.watch = self._watch(part, accepted, place)
            track.held.since_s = self._clock.monotonic()
            minutes = math.ceil(track.held.expected_s / 60)
            self._tell(f"part {part}: {len(track.held.owes)} cases to {place}, about {minutes} min")

    def _part_with_the_needless(self) -> None:
        """Stop what others have done meanwhile: it costs device time and brings nothing."""
        now_s = self._clock.monotonic()
        for track in [*self._tracks.values()]:
            is_overdue = track.stopped_s is not None and now_s - track.stopped_s >= FAREWELL_S
            if track.held.owes:
                if is_overdue and not track.held.is_shared:
                    self._standing.share(track.held)
            elif track.stopped_s is None:
                self._say(track, f"part {track.held.part} is stopped: others have done its cases")
                self._stop(track)
            elif is_overdue:
                self.run.record("withdrawn", track.held.part, "others have its cases; it was asked to stop")
                self._release(track)

    def _stop(self, track: Track) -> None:
        part, place = track.held.part, self._places[track.held.place]
        track.stopped_s = self._clock.monotonic()
        with contextlib.suppress(FerryError):
            stopping.stop(self.run, part, place.backend, self._clock, lose_log=True)
        if self.run.has_come(part):  # stopping took it away there
            self._take_in(track, State.CANCELLED)
