"""What a push will come to, said before it is made: whose account, which cards, how long, how much quota."""

from __future__ import annotations

import math
from collections.abc import Iterator

from builder import accelerators, retry
from builder.backends import Backend, Limits, Quota
from builder.clock import Clock
from builder.errors import InfrastructureError
from builder.estimates import foretold
from builder.spec import RunSpec
from harness.shapes import cost_s

SPARE = 3.0  # the estimate is for a T4 and gpuferry's own routes
LEAST_S = 900.0
START_S = 90.0  # a session's own start, and the notebook's conversion at its end
_TABLED = "official"  # the suite whose estimates the README has
_TRIES = 2  # nothing that is said here is worth a long wait


def estimate_s(spec: RunSpec) -> float:
    """Estimate a session's seconds: its start, and the cases dealt to the cards, the longest by itself.

    `START_S + max(longest, sum / cards)` over `harness.shapes.cost_s` of each case, which is for a T4, none
    above its own limit.
    """
    known = accelerators.lookup(spec.accelerator) if spec.accelerator else None
    there = known.count if known else 1
    cards = min(there, spec.devices) if spec.devices else there
    most_s = spec.case_timeout_s or math.inf
    costs = [min(most_s, cost_s(case, spec.seeds)) for case in spec.cases] or [0.0]
    return START_S + max(*costs, sum(costs) / cards)


def timeout_s(spec: RunSpec, limits: Limits) -> float:
    """Return the kernel's own limit: what was asked for, else one from the estimate where sessions end.

    That is `SPARE` times the estimate in whole minutes, at least `LEAST_S`, at most the longest session.
    """
    if spec.timeout_s or not limits.session_s:
        return spec.timeout_s
    wanted = max(LEAST_S, SPARE * estimate_s(spec))
    return min(60.0 * math.ceil(wanted / 60), limits.session_s)


def announce(spec: RunSpec, backend: Backend, clock: Clock) -> Iterator[str]:
    """Yield what is about to happen, then what else is under way; without an account nothing is counted."""
    account = backend.account()
    if not account:
        return
    yield from (f"note: {remark}" for remark in backend.remarks())
    minutes = math.ceil(estimate_s(spec) / 60)
    stops = (
        f"stops by itself after {spec.timeout_s / 60:.0f} min"
        if spec.timeout_s
        else "has no limit of its own"
    )
    cases = f"suite {spec.suite}, {len(spec.cases)} cases" if spec.cases else "a probe"
    yield (
        f"pushing to {spec.backend} as {account}: {_cards(spec)}, {cases}, about {minutes} min"
        f"{_of_quota(spec, backend, clock)}; it {stops}; to come back: ferry pull {spec.run_id}"
    )
    if (
        spec.suite == _TABLED
        and (known := accelerators.lookup(spec.accelerator))
        and (said := foretold(spec.cases, known.device))
    ):
        yield f"{said}; afterwards: ferry compare --estimate {spec.run_id}"
    try:
        if busy := retry.read(backend.active, clock, _TRIES):
            yield f"under way on this account already: {', '.join(busy)}"
    except InfrastructureError as error:
        yield f"what else is under way on this account is not known: {error.message}"


def _cards(spec: RunSpec) -> str:
    known = accelerators.lookup(spec.accelerator) if spec.accelerator else None
    return f"{spec.accelerator} ({known.count} × {known.device})" if known else spec.accelerator or "cpu"


def _of_quota(spec: RunSpec, backend: Backend, clock: Clock) -> str:
    resource = "TPU" if spec.accelerator.startswith("Tpu") else "GPU"
    if spec.accelerator in ("", "cpu"):
        return ""
    try:
        found = [quota for quota in retry.read(backend.quota, clock, _TRIES) if quota.resource == resource]
    except InfrastructureError as error:
        return f" of a quota that is not known ({error.message})"
    return f" of the {left(found[0])}" if found else ""


def left(quota: Quota) -> str:
    """Say how much of a quota is left."""
    return f"{quota.left_s / 3600:.1f} h of {quota.resource} quota left"
