"""A farm of workers that nobody has: parts take time on a clock that only sleeping moves, and go wrong."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.backends import Intent, Limits, OutputFile, State, Status, Submission, Unmetered
from builder.bundle import Bundle
from builder.clock import SystemClock
from builder.dealing import Place, foresee
from builder.errors import InfrastructureError
from builder.parting import Parts
from builder.places import Known
from builder.runs import Run, atomic_write, create, runs_root
from builder.spec import RunSpec
from builder.spreading import Spread
from harness.events import Body, CaseDone, End, Plan, Planned, RunRef, Started, to_plain
from harness.shapes import SHAPES, Case
from tests.unit.written_logs import BROKEN, CARD, TERMS, lines_of, timed

START_S = 10.0
SLOWER = 3.0  # a straggler's time over what it should be
NOTHING = Bundle({}, (), "model", own_harness=False)


class Tick(SystemClock):
    """A clock that goes by sleeping alone."""

    slept = 0.0

    def monotonic(self) -> float:
        """Return the seconds slept."""
        return self.slept

    def sleep(self, seconds: float) -> None:
        """Be later at once."""
        self.slept += seconds


@dataclass(frozen=True)
class Luck:
    """How often what goes wrong: parts that die, cases that fail, stragglers, answers that are lost."""

    dies: float = 0.01
    fails: float = 0.01
    straggles: float = 0.05
    unheard: float = 0.02


@dataclass
class Job:
    """An accepted part."""

    cases: Sequence[Case]
    begins_s: float
    ends_s: float
    done: int  # cases that it gets through
    slower: float
    stopped: bool = False


class Farm(Unmetered):
    """So many workers; `seconds` is what each case really takes."""

    name = "farm"

    def __init__(self, clock: Tick, seconds: Mapping[str, float], luck: Luck, seed: int = 1) -> None:
        self.jobs: dict[str, Job] = {}
        self.failing = {case for case in seconds if random.Random(case).random() < luck.fails}
        self._clock, self._seconds, self._luck = clock, seconds, luck
        self._draw = random.Random(seed)

    def _may_be_lost(self) -> None:
        if self._draw.random() < self._luck.unheard:
            raise InfrastructureError("the answer was lost")

    def submit(self, intent: Intent) -> Submission:
        """Take a part, once; the answer may be lost before or after that."""
        self._may_be_lost()
        assert intent.slug not in self.jobs, "a part was submitted twice"
        cases = Run(intent.folder.parent.parent).part_spec(intent.part).cases
        slower = SLOWER if self._draw.random() < self._luck.straggles else 1.0
        takes_s = slower * sum(self._seconds[case.id] for case in cases)
        done = len(cases)
        if self._draw.random() < self._luck.dies:
            done = self._draw.randrange(len(cases))
            takes_s *= done / len(cases)
        begins_s = self._clock.monotonic() + START_S
        self.jobs[intent.slug] = Job(cases, begins_s, begins_s + takes_s, done, slower)
        self._may_be_lost()
        return Submission(self.name, intent.slug, intent.slug)

    def find(self, intent: Intent) -> Submission | None:
        """Say whether it was taken."""
        return Submission(self.name, intent.slug, intent.slug) if intent.slug in self.jobs else None

    def status(self, submissions: Sequence[Submission]) -> list[Status]:
        """Say where each part stands now, if the answer comes."""
        self._may_be_lost()
        return [self._status(self.jobs[one.reference]) for one in submissions]

    def _status(self, job: Job) -> Status:
        now_s = self._clock.monotonic()
        if now_s < job.ends_s:
            return Status(State.RUNNING if now_s >= job.begins_s else State.QUEUED)
        if job.stopped:
            return Status(State.CANCELLED, "stopped")
        return Status(State.DONE if job.done == len(job.cases) else State.FAILED)

    def follow_log(self, submission: Submission) -> Iterator[bytes]:
        """Nothing is followed."""
        return iter(())

    def fetch_log(self, submission: Submission, target: Path) -> None:
        """Write what the part's kernel would have written, as far as it came."""
        self._may_be_lost()
        _, run_id, part = submission.slug.split("-", 1)[0], *submission.slug[len("ferry-") :].rsplit("-", 1)
        atomic_write(
            target, "\n".join(lines_of(self._bodies(self.jobs[submission.reference]), run_id, int(part)))
        )

    def _bodies(self, job: Job) -> list[Body]:
        said: list[Body] = [Plan(RunRef(), TERMS, len(job.cases), "2026-01-02T03:04:05+00:00")]
        said += [Planned(index, case) for index, case in enumerate(job.cases)]
        said.append(CARD)
        for case in job.cases[: job.done]:
            if case.id in self.failing:
                said += [Started(case.id, 0), CaseDone(case.id, 0, "failed_gate", gate=BROKEN)]
            else:
                said += timed(case)
        whole = job.stopped or job.done == len(job.cases)
        return [*said, End("stopped" if job.stopped else "complete", {}, 1.0)] if whole else said

    def list_outputs(self, submission: Submission) -> Iterator[OutputFile]:
        """There are none."""
        return iter(())

    def fetch_output(self, submission: Submission, file: OutputFile) -> Iterator[bytes]:
        """There is none."""
        return iter(())

    def stop(self, submission: Submission) -> None:
        """End a part now, with the cases that it has come through."""
        job, now_s = self.jobs[submission.reference], self._clock.monotonic()
        if now_s < job.ends_s:
            came_s = (now_s - job.begins_s) / job.slower
            times = itertools.accumulate(self._seconds[case.id] for case in job.cases)
            job.done = min(job.done, sum(one <= came_s for one in times))
            job.ends_s, job.stopped = now_s, True

    def limits(self) -> Limits:
        """It is asked every ten seconds."""
        return Limits(poll_s=10.0)


def add(run: Run, part: int, spec: RunSpec, _: Bundle) -> None:
    """Put a part on disk without a kernel, which nobody runs."""
    atomic_write(run.part(part) / "spec.json", json.dumps(to_plain(spec)))


@dataclass
class Played:
    """A sweep that was carried to its end: `best_s` is what no dealing can beat."""

    run: Run
    farm: Farm
    took_s: float
    best_s: float


def sweep(count: int, seed: int = 1) -> tuple[tuple[Case, ...], dict[str, float]]:
    """Return so many different cases, and how long each takes: many short ones, few long."""
    draw = random.Random(seed)
    shape = SHAPES["t01"]
    cases = tuple(Case(shape, "eager", {"LEVER_N": str(number)}) for number in range(count))
    return cases, {case.id: min(1800.0, draw.lognormvariate(5.3, 0.8)) for case in cases}


def play(count: int, workers: int, luck: Luck, seed: int = 1) -> Played:
    """Deal a sweep over a farm with the real scheduler and run folder, to its end."""
    cases, seconds = sweep(count, seed)
    draw = random.Random(seed + 1)
    expected = {case: one * draw.uniform(0.8, 1.25) for case, one in seconds.items()}
    spec = RunSpec("smoke", cases, run_id=f"20261130-{100000 + count:06}-abcdef", backend="farm,none")
    with create(spec):
        pass
    clock = Tick()
    farm = Farm(clock, seconds, luck, seed)
    place = Place("farm", slots=workers, start_s=START_S)
    run = Run(runs_root() / spec.run_id)
    known = {"farm": Known(farm, place)}
    parts = Parts(run, NOTHING, add)
    spread = Spread(run, known, {"farm": expected}, clock, lambda _: None, parts)
    spread.carry()
    return Played(run, farm, clock.slept, max(sum(seconds.values()) / workers, *seconds.values()))


def foreseen_s(count: int, workers: int) -> float:
    """Return what the same sweep is foreseen to take when nothing goes wrong."""
    _, seconds = sweep(count)
    return foresee([Place("farm", workers, start_s=START_S)], {"farm": seconds}, list(seconds)).ends_s
