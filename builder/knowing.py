"""Not twice: the cases of a run that have a result already, under the same key, and where.

The key is all that bears on a result: what the case and the order ask for, the code (the harness, and of the
model the files that the worker imported, or all of it where the worker did not say), the device, and the
versions that its place had when it was last seen. What failed is remembered for a while only: a fault of the
code stays one, but a card that was full, or hung, may be well tomorrow.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from builder import places
from builder.bundle import Bundle, digest, is_of_model
from builder.clock import Clock
from builder.expecting import Where
from builder.history import Past, case_sha256, terms_sha256
from builder.spec import RunSpec
from harness.events import FINAL_STATUSES

_DAY_S = 86_400.0
REMEMBERED_S = {
    "passed": math.inf,
    "infeasible": math.inf,
    "failed_gate": 7 * _DAY_S,
    "disqualified": 7 * _DAY_S,
    "error": _DAY_S,
    "oom": _DAY_S,
    "timeout": _DAY_S,
}


def recall(spec: RunSpec, bundle: Bundle, past: Sequence[Past], clock: Clock) -> RunSpec:
    """Return the spec with its cases that are known already, if it asks for that.

    A profile is wanted anew, and somebody's own harness and a second model are not in any key: nothing is.
    """
    if not spec.reuse or spec.profiling or bundle.own_harness or bundle.against:
        return spec
    terms = terms_sha256(spec.seeds, spec.target_ci, spec.profiling, bundle.against)
    here = [places.where(name, spec) for name in places.names_of(spec.backend)]
    trusted = [one for one in past if one.terms == terms and _is_good(one, clock) and _is_code(one, bundle)]
    usable = [one for one in trusted if any(_is_there(one, where, past) for where in here)]
    by_case = {one.case: one.run_id for one in reversed(usable)}  # the newest stays
    found = {case.id: by_case.get(case_sha256(case), "") for case in spec.cases}
    return replace(spec, known={case: run_id for case, run_id in found.items() if run_id})


def _is_good(past: Past, clock: Clock) -> bool:
    """Whether a result can be trusted and is not forgotten yet."""
    if not past.is_trusted or past.mismatch or past.status not in FINAL_STATUSES:
        return False
    with contextlib.suppress(ValueError):
        return clock.now() - datetime.fromisoformat(past.at).timestamp() < REMEMBERED_S[past.status]
    return False


def _is_code(past: Past, bundle: Bundle) -> bool:
    """Whether the code here is what ran: of the model the files that were imported, and those of no code."""
    if past.harness_sha256 != bundle.harness_sha256:
        return False
    if not past.imported:
        return past.model_sha256 == bundle.model_sha256
    return past.code == code_sha256(bundle.files, past.imported)


def code_sha256(files: Mapping[str, bytes], imported: Iterable[str]) -> str:
    """Return the hash of a model's files that were imported, and of its others that are no Python."""
    names = {*imported}
    return digest(
        {
            name: data
            for name, data in files.items()
            if is_of_model(name) and (name in names or not name.endswith(".py"))
        }
    )


def _is_there(one: Past, where: Where, past: Sequence[Past]) -> bool:
    """Whether a result is of the device and the versions that a place has, as far as is known."""
    newest = next((other.versions for other in past if where.is_of(other) and other.versions), "")
    return where.is_of(one) and one.versions == newest
