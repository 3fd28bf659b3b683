"""Logs of runs whose times, devices and ends a test chooses."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from builder.reading import Reading, read
from harness.events import (
    Body,
    CaseDone,
    Device,
    End,
    Gate,
    Plan,
    Planned,
    Profile,
    RunRef,
    Samples,
    Started,
    Work,
    pack_ns,
)
from harness.shapes import SHAPES, Case
from tests.unit.written_logs import CARD, GATE, RUN, TERMS, lines_of

ROUNDS, REPEATS = 3, 20
S01, S02 = Case(SHAPES["s01"], "sdpa"), Case(SHAPES["s02"], "sdpa")


@dataclass(frozen=True)
class Measured:
    """A case with its medians in microseconds (None: not timed), its noise as a share, and its end."""

    case: Case
    baseline_us: float | None = 2000.0
    candidate_us: float | None = 1000.0
    noise: float = 0.002
    status: str = "passed"
    gate: Gate | None = GATE
    flags: dict[str, str] = field(default_factory=dict)
    error: str = ""
    work: tuple[Work, ...] = ()
    route_ran: str = ""


def times(median_us: float, noise: float, seed: str) -> list[list[int]]:
    """Rounds of whole nanoseconds around a median."""
    draw = random.Random(seed)
    return [
        [round(median_us * 1e3 * draw.uniform(1 - noise, 1 + noise)) for _ in range(REPEATS)]
        for _ in range(ROUNDS)
    ]


def _bodies(measured: Measured) -> list[Body]:
    case, sides = measured.case, {"baseline": measured.baseline_us, "candidate": measured.candidate_us}
    found: list[Body] = [Started(case.id, 0)]
    count = 0
    for side, median_us in sides.items():
        drawn = times(median_us, measured.noise, f"{case.id} {side}") if median_us else []
        for number, values in enumerate(drawn):
            found.append(Samples(case.id, side, number, 0, pack_ns(values)))
            count += len(values)
    if measured.work:
        found.append(Profile(case.id, "candidate", 1, sum(work.ns for work in measured.work), measured.work))
    done = CaseDone(case.id, 0, measured.status, error=measured.error, gate=measured.gate, samples=count)
    return [*found, replace(done, flags=measured.flags, route_ran=measured.route_ran, peak_mem_mib=64.0)]


def write_log(
    path: Path, cases: Sequence[Measured], device: Device = CARD, harness: str = "harness", run: str = RUN
) -> Path:
    """Write the events of a whole run of these cases."""
    plan = Plan(
        RunRef(run, 1), replace(TERMS, harness_sha256=harness), len(cases), "2026-01-02T03:04:05+00:00"
    )
    bodies: list[Body] = [plan, *(Planned(number, one.case) for number, one in enumerate(cases)), device]
    for one in cases:
        bodies += _bodies(one)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines_of([*bodies, End("complete", {}, 1.0)], run)), encoding="utf-8")
    return path


def reading_of(
    path: Path, *cases: Measured, device: Device = CARD, harness: str = "harness", run: str = RUN
) -> Reading:
    """Write the log of such a run and read it."""
    return read(str(write_log(path, cases, device, harness, run)))
