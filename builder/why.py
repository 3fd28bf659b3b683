"""How one case's figures came about: raw samples and their places, medians, interval, noise, the machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from builder import reading, repeating, retractions, runs, showing, turns
from builder.errors import UsageError
from builder.log import LogReader
from builder.records import CaseRecord
from builder.results import Row
from builder.runs import Run
from builder.stats import CONFIDENCE, RESAMPLES, Comparison
from builder.terminal import one_line
from harness.events import DamagedEventError, Event, Samples, decode

_CLOCKS = ("clocks", "throttle", "card_before", "card_after", "host_bound", "unsealed")


@dataclass(frozen=True)
class Taken:
    """The samples of one event in ns, and where it stands: a line of what the program wrote into a log."""

    side: str
    round: int
    start: int
    ns: tuple[int, ...]
    log: Path
    line: int

    def __str__(self) -> str:
        """Name the place and what is there."""
        what = f"{self.side} round {self.round}, samples {self.start} to {self.start + len(self.ns) - 1}"
        return f"{self.log}:{self.line}  {what}: median {median(self.ns):,.0f} ns"


@dataclass(frozen=True)
class Why:
    """The whole chain of one row."""

    row: Row
    taken: tuple[Taken, ...]
    steps: tuple[str, ...]
    circumstances: dict[str, str]
    command: str
    retracted: str

    def lines(self) -> Iterator[str]:
        """Yield it for people."""
        yield f"{self.row.case_id} of run {self.row.run_id}: {self.row.status}"
        if self.retracted:
            yield f"retracted: {one_line(self.retracted)}"
        yield "raw samples"
        yield from (f"  {taken}" for taken in self.taken)
        yield "figures"
        yield from (f"  {step}" for step in self.steps)
        yield "circumstances"
        told = {name: one_line(value) for name, value in self.circumstances.items() if value}
        yield from (f"  {name:<12} {value}" for name, value in told.items())
        yield f"repeat\n  {self.command}"


def why(run: Run, case: str) -> Why:
    """Return how a case's figures came about; `case` is its id or the beginning of one.

    Raises UsageError when the run has no log, or not the one such case.
    """
    found = reading.of_run(run)
    fitting = [(record, row) for record, row in found.cases if row.case_id.startswith(case)]
    exact = [(record, row) for record, row in fitting if row.case_id == case] or fitting
    if len(exact) != 1:
        listed = ", ".join(row.case_id for row in (pair[1] for pair in exact or found.cases))
        raise UsageError(f"{len(exact)} cases of run {run.id} begin with {case!r}", f"its cases: {listed}")
    record, row = exact[0]
    if record.origin:
        return why(runs.find(record.origin), record.case.id)
    try:
        words = repeating.command_for(record.case, run.spec)
    except UsageError:
        words = ["ferry", "rerun", run.id]
    return Why(
        row,
        tuple(_taken(run, record)),
        tuple(_steps(record, row)),
        _circumstances(run, row),
        repeating.line_of(words),
        retractions.read(run.folder).why(row.case_id),
    )


def _taken(run: Run, record: CaseRecord) -> Iterator[Taken]:
    """Yield where a case's samples stand, each once: in the first log that has them whole."""
    seen: set[tuple[str, int, int]] = set()
    for log in run.logs():
        for line in LogReader(log).lines():
            if record.case.id not in line.text:
                continue
            with contextlib.suppress(DamagedEventError):
                taken = _on_line(decode(line.text), record, log, line.number)
                if taken and (taken.side, taken.round, taken.start) not in seen:
                    seen.add((taken.side, taken.round, taken.start))
                    yield taken


def _on_line(event: Event | None, record: CaseRecord, log: Path, line: int) -> Taken | None:
    """Return the samples that an event holds of this record's own attempt."""
    if event is None or (event.name.part, event.name.attempt) != (record.part, record.attempt):
        return None
    body = event.body
    if not isinstance(body, Samples) or body.case_id != record.case.id:
        return None
    return Taken(body.side, body.round, body.start, body.values, log, line)


def _steps(record: CaseRecord, row: Row) -> Iterator[str]:
    """Yield the way from samples to the verdict."""
    for side, rounds in sorted(record.samples.items()):
        yield f"{side}: {_medians(rounds)}"
    if row.speedup is None or row.speedup_low is None or row.speedup_high is None:
        yield "no speed-up: it takes a baseline's samples, and a case that passed"
        return
    yield f"speed-up {row.speedup:.6g}: the baseline's time over the candidate's"
    yield from turns.unlike_medians([row])
    yield (
        f"{CONFIDENCE:.0%} interval {row.speedup_low:.6g} to {row.speedup_high:.6g}: {RESAMPLES} resamples "
        f"in blocks, seeded with {record.case.id!r}"
    )
    floor = "unknown, there is one round" if row.noise_floor is None else f"{row.noise_floor:.4%}"
    yield f"noise floor {floor}: how far the unchanged baseline strays by itself"
    found = Comparison(row.speedup, row.speedup_low, row.speedup_high, row.noise_floor)
    yield f"{found.word}: a difference counts beyond {found.threshold:.4%}"


def _medians(rounds: Sequence[Sequence[int]]) -> str:
    each = ", ".join(f"{median(samples) / 1e6:.6g}" for samples in rounds)
    pooled = median([ns for samples in rounds for ns in samples]) / 1e6
    return f"median {pooled:.6g} ms of {sum(map(len, rounds))} samples; by round {each}"


def _circumstances(run: Run, row: Row) -> dict[str, str]:
    device = (
        ", ".join(filter(None, [row.device, row.capability, f"driver {row.driver}"])) if row.device else ""
    )
    dirty = " with changes" if row.git_dirty else ""
    versions = f"torch {row.torch}, Triton {row.triton}, Python {row.python}" if row.torch else ""
    flags = {name: row.flags[name] for name in _CLOCKS if name in row.flags}
    return {
        "device": device,
        "versions": versions,
        "protocol": row.protocol,
        "tf32": row.tf32,
        **flags,
        "git": f"{row.git_commit}{dirty}" if row.git_commit else "",
        **showing.hashes(run),
        "started at": row.started_at,
    }
