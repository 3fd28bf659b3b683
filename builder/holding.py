"""A run's times beside the estimates for its card: by how much the model of that card is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from builder.errors import UsageError
from builder.estimates import RATES, SIDES, estimate, rates_of
from builder.reading import Reading
from builder.results import Row
from builder.stats import geomean
from harness.shapes import CHOOSING_ROUTES, Shape


@dataclass(frozen=True)
class Held:
    """One measured time beside its estimate; `ratio` is measured over estimated."""

    case_id: str
    side: str
    bound: str
    estimated_ms: float
    measured_ms: float

    @property
    def ratio(self) -> float:
        """How many times the estimate the measurement is."""
        return self.measured_ms / self.estimated_ms

    @property
    def off(self) -> float:
        """By what factor the estimate is wrong, in either direction."""
        return max(self.ratio, 1 / self.ratio)


# What these do is torch's, each in a way that the model knows nothing of; `sdpa` alone it knows.
TORCHS = frozenset({"eager", "compiled", "fused", "graphed", "reduce", "amp", "chunked"})


def side_of(row: Row) -> str:
    """Return which of SIDES a row's candidate is, or nothing: other routes the model does not know."""
    if row.route_ran == "sdpa" or not row.route_ran:
        return row.route_ran
    precision = (row.levers or {}).get("LEVER_PRECISION", "safe")
    side = row.route if row.route in CHOOSING_ROUTES - {"auto"} else precision
    return side if side in SIDES and row.route_ran not in TORCHS else ""


def held(shape: Shape, row: Row) -> Iterator[Held]:
    """Yield a row's baseline and candidate beside their estimates, as far as there are any."""
    if row.is_simulated or row.status != "passed" or row.dtype != "float32":
        return
    for side, measured in (("baseline", row.baseline_median_ms), (side_of(row), row.median_ms)):
        found = estimate(shape, row.device, side, row.tf32 == "on")
        if found and measured:
            yield Held(row.case_id, side, found.bound, found.ms, measured)


@dataclass(frozen=True)
class Wrong:
    """How wrong the model is on one side of a run: the geomean of the ratios, and the case that is worst."""

    side: str
    count: int
    geomean: float
    worst: Held


def wrongness(found: list[Held]) -> list[Wrong]:
    """Return a line for each side that was measured."""
    told = []
    for side in SIDES:
        mine = [one for one in found if one.side == side]
        if mine:
            mean = geomean([one.ratio for one in mine])
            told.append(Wrong(side, len(mine), mean, max(mine, key=lambda one: one.off)))
    return told


def hold(reading: Reading) -> list[Held]:
    """Return a run's times beside their estimates, the retracted ones left out.

    Raises UsageError when the model knows none of its devices, or nothing of it was measured.
    """
    taken_back = reading.retracted
    cases = [(record, row) for record, row in reading.cases if not taken_back.why(row.case_id)]
    devices = sorted({row.device for _, row in cases} - {""})
    if not any(map(rates_of, devices)):
        there = ", ".join(devices) or "no device"
        raise UsageError(f"no estimate is known for {there}", f"the model knows: {', '.join(RATES)}")
    found = [one for record, row in cases for one in held(record.case.shape, row)]
    if not found:
        raise UsageError(
            f"no row of {reading.name} has an estimate", "it is for passed cases in float32 of known routes"
        )
    return found
