"""What a run will come to, before anything is spent: parts, minutes, quota, and what will not fit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from builder import expecting, places
from builder.accelerators import lookup
from builder.clock import Clock
from builder.dealing import Costs, Foreseen, foresee
from builder.errors import RefusedHereError
from builder.expecting import Expected, costs_of
from builder.history import Past, gather
from builder.places import Known
from builder.spec import RunSpec
from harness.shapes import Case

LISTED = 40  # cases; of more only the shapes are told


@dataclass(frozen=True)
class Plan:
    """A run as it is foreseen. `spec` says which cases are left out and which are known already."""

    spec: RunSpec
    places: Mapping[str, Known]
    expected: Mapping[str, Mapping[str, Expected]]
    foreseen: Foreseen

    @property
    def costs(self) -> Costs:
        """Expected seconds by place and case."""
        return costs_of(self.expected)

    def cases_at(self, place: str) -> int:
        """How many cases a place is foreseen to get."""
        return sum(len(part.cases) for part in self.foreseen.parts if part.place == place)

    def place_of(self, case: str) -> str:
        """Where a case is foreseen to go; empty when it goes nowhere."""
        return next((part.place for part in self.foreseen.parts if case in part.cases), "")

    def refuse_nothing(self) -> None:
        """Raise RefusedHereError when there is nothing to send although cases are without a result."""
        if not self.foreseen.parts and self.spec.left_out:
            case, why = next(iter(self.spec.left_out.items()))
            raise RefusedHereError(
                f"nothing fits: {case} and {len(self.spec.left_out) - 1} more: {why}",
                "give more --budget or --timeout, or choose fewer --shapes",
            )


def make(spec: RunSpec, clock: Clock, past: Sequence[Past] | None = None) -> Plan:
    """Foresee a run: ask its places, and learn from the past how long its cases take there.

    `spec.known` says which cases need no run. Raises what the places raise about accounts.
    """
    known = places.look_at(spec, clock)
    expected = expect(spec, past)
    rooms = [one.place for one in known.values()]
    foreseen = foresee(
        rooms, costs_of(expected), [case.id for case in _open(spec)], spec.budget_s or math.inf
    )
    left_out = dict.fromkeys(foreseen.left_out, _why_left_out(spec))
    return Plan(replace(spec, left_out=left_out), known, expected, foreseen)


def expect(spec: RunSpec, past: Sequence[Past] | None = None) -> dict[str, dict[str, Expected]]:
    """Return what each case that is to be run takes at each place, by place and case."""
    past = gather({case.shape.key for case in spec.cases}) if past is None else past
    most_s = spec.case_timeout_s or math.inf
    return {
        name: expecting.expect(_open(spec), places.where(name, spec), spec.seeds, past, most_s)
        for name in places.names_of(spec.backend)
    }


def _open(spec: RunSpec) -> list[Case]:
    return [case for case in spec.cases if case.id not in spec.known]


def _why_left_out(spec: RunSpec) -> str:
    if spec.budget_s:
        return f"it does not fit the budget of {hours(spec.budget_s)} of device time"
    return "it does not fit the quota or the longest session of any place"


def hours(seconds: float) -> str:
    """Return a time as people say it."""
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{math.ceil(seconds / 60)} min"


def lines(plan: Plan) -> Iterator[str]:
    """Yield the plan for people: the summary, and each case's minutes."""
    yield from summary(plan)
    yield from _cases(plan)


def summary(plan: Plan) -> Iterator[str]:
    """Yield what goes to which place, what that comes to, and what is left out or known already."""
    yield from (_of_place(plan, name) for name in plan.places)
    yield from _totals(plan)


def _totals(plan: Plan) -> Iterator[str]:
    spec, foreseen = plan.spec, plan.foreseen
    sent = sum(len(part.cases) for part in foreseen.parts)
    budget = f" of a budget of {hours(spec.budget_s)}" if spec.budget_s else ""
    yield (
        f"in all {sent} of {len(spec.cases)} cases in {_count(len(foreseen.parts), 'part')}, about "
        f"{hours(foreseen.ends_s)} to the last one's end, {hours(foreseen.used_s())} of device time{budget}"
    )
    if spec.known:
        sources = ", ".join(dict.fromkeys(spec.known.values()))
        yield f"known already: {_count(len(spec.known), 'case')}, from {sources}; --fresh runs them"
    for why in dict.fromkeys(spec.left_out.values()):
        cases = [case for case, said in spec.left_out.items() if said == why]
        shown = ", ".join(cases[:5]) + (f" and {len(cases) - 5} more" if len(cases) > 5 else "")
        yield f"not run: {shown}: {why}"


def _of_place(plan: Plan, name: str) -> str:
    parts = [part for part in plan.foreseen.parts if part.place == name]
    if not parts:
        return f"{name}: no case goes there" + (
            f"; {plan.places[name].said}" if plan.places[name].said else ""
        )
    said = f" of {plan.places[name].said}" if plan.places[name].said else ""
    asked = places.accelerator_of(name, plan.spec)
    card = lookup(asked) if asked else None
    what = f" ({asked}, {card.count} × {card.device})" if card else f" ({asked})" if asked else ""
    at_once, used_s = plan.places[name].place.slots, plan.foreseen.used_s(name)
    outlook = plan.places[name].outlook(plan.spec)
    return (
        f"{name}{what}: {_count(plan.cases_at(name), 'case')} in {_count(len(parts), 'part')}, "
        f"{at_once} at once, about {hours(used_s)} of device time{said}{'; ' if outlook else ''}{outlook}"
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _cases(plan: Plan) -> Iterator[str]:
    """Yield each case's expected minutes where it is foreseen to go; of many cases only each shape's."""
    open_ = _open(plan.spec)
    if len(open_) > LISTED:
        yield f"{len(open_)} cases are too many to list; --json lists them"
        return
    width = max((len(case.id) for case in open_), default=0)
    for case in open_:
        name = plan.place_of(case.id)
        told = [(name, plan.expected[name][case.id])] if name else []
        said = "; ".join(f"{one.seconds / 60:.1f} min on {place}, {one.how}" for place, one in told)
        yield f"  {case.id:<{width}}  {said or 'not run'}"


def document(plan: Plan) -> dict[str, object]:
    """Return the plan for programs; times in seconds."""
    return {
        "places": [
            {
                "place": name,
                "accelerator": places.accelerator_of(name, plan.spec),
                "at_once": known.place.slots,
                "parts": sum(part.place == name for part in plan.foreseen.parts),
                "cases": plan.cases_at(name),
                "device_s": round(plan.foreseen.used_s(name), 1),
                "left_s": known.place.left_s if math.isfinite(known.place.left_s) else None,
                "said": known.said,
            }
            for name, known in plan.places.items()
        ],
        "cases": [_case(plan, case.id) for case in plan.spec.cases],
        "ends_s": round(plan.foreseen.ends_s, 1),
        "device_s": round(plan.foreseen.used_s(), 1),
        "left_out": plan.spec.left_out,
        "known": plan.spec.known,
    }


def _case(plan: Plan, case: str) -> dict[str, object]:
    expected = {name: cases[case] for name, cases in plan.expected.items() if case in cases}
    return {
        "case_id": case,
        "place": plan.place_of(case),
        "expected": {
            name: {"seconds": round(one.seconds, 1), "how": one.how, "runs": one.runs}
            for name, one in expected.items()
        },
    }
