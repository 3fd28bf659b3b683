"""The router's table, from measured runs: for each choice and shape on a device, the route that was fastest.

A choice is among routes that serve it, as their files say. A row counts when it passed under `official` on
real hardware, ran what it says, and was not taken back; of a route under the same levers the newest row does.
For `safe` it must be known not to have computed in TF32, or be within 2e-5 of a baseline that did not; for
`fast` half of the gate must be left. Where only one route was measured nothing was chosen: no entry.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from builder import declared, reading
from builder.reading import Reading
from builder.results import Row
from builder.runs import Run
from harness.shapes import CHOOSING_ROUTES, SHAPES

SCHEMA = 1
TABLE = declared.MODEL / "routes" / "table.json"
SAFE_MAX_ABS = 2e-5
FAST_SHARE = 0.5
Key = tuple[str, str, str, str, str, str]  # device, capability, dtype, tf32, shape, choice
Candidate = tuple[str, tuple[tuple[str, str], ...]]  # route, levers


@dataclass(frozen=True)
class Measured:
    """A candidate's time in a case of a run."""

    run: str
    row: Row
    median_ms: float


def derive(readings: Iterable[Reading]) -> list[dict[str, object]]:
    """Return the table's entries, sorted; the same readings in any order give the same."""
    found: dict[Key, dict[Candidate, Measured]] = defaultdict(dict)
    for each in sorted(readings, key=lambda reading: reading.name):
        for row in _rows(each):
            for choice, candidate in _serves(row):
                found[_key(row, choice)][candidate] = Measured(each.name, row, row.median_ms or 0.0)
    return [_entry(key, measured) for key, measured in sorted(found.items()) if len(measured) > 1]


def published(root: Path) -> Iterator[Reading]:
    """Read the runs kept as evidence in `root`, each from its raw logs."""
    for spec in sorted(root.glob("*/spec.json")):
        yield reading.of_run(Run(spec.parent))


def text(entries: list[dict[str, object]]) -> str:
    """Return the table's file: one entry a line."""
    lines = ",\n".join(f"  {json.dumps(entry)}" for entry in entries)
    return f'{{"schema": {SCHEMA}, "entries": [\n{lines}\n]}}\n'


def _rows(each: Reading) -> Iterator[Row]:
    for row in each.rows:
        real = bool(row.device) and not row.device.startswith("cpu") and not row.is_simulated
        measured = row.status == "passed" and row.protocol == "official" and row.median_ms
        if real and measured and row.shape in SHAPES and not each.retracted.why(row.case_id):
            yield row


def _serves(row: Row) -> Iterator[tuple[str, Candidate]]:
    """Yield each choice that the row says something about, with the candidate that it measured."""
    levers = {name: value for name, value in row.levers.items() if name != "LEVER_ROUTE"}
    for route in declared.files():
        if route.name != row.route_ran or (row.route not in CHOOSING_ROUTES and row.route != row.route_ran):
            continue
        deciding = {name for needed in route.serves.values() for name in needed}
        for choice, needed in route.serves.items():
            if row.route in CHOOSING_ROUTES:
                fits = choice == ("safe" if row.route == "auto" else row.route)
            else:
                fits = all(levers.get(name) == needed.get(name) for name in deciding)
            if fits and _keeps(choice, row):
                yield choice, (route.name, tuple(sorted({**levers, **needed}.items())))


def _keeps(choice: str, row: Row) -> bool:
    """Whether a row's error is the choice's."""
    if choice == "safe":
        near = row.tf32 == "off" and (row.max_abs or 0.0) <= SAFE_MAX_ABS
        return row.dtype != "float32" or near or (row.tf32 == "on" and row.flags.get("tf32_ran") == "no")
    return choice != "fast" or (row.gate_share or 0.0) <= FAST_SHARE


def _key(row: Row, choice: str) -> Key:
    return row.device, row.capability, row.dtype, row.tf32, row.shape, choice


def _entry(key: Key, measured: dict[Candidate, Measured]) -> dict[str, object]:
    ranked = sorted(measured.items(), key=lambda item: (item[1].median_ms, item[0]))
    (route, levers), best = ranked[0]
    device, capability, dtype, tf32, shape, choice = key
    size = SHAPES[shape]
    return {
        "device": device,
        "capability": capability,
        "dtype": dtype,
        "tf32": tf32 == "on",
        "shape": [size.batch, size.seq_len, size.d_model, size.heads, size.ffn_dim, size.layers],
        "causal": size.causal,
        "choice": choice,
        "route": route,
        "levers": dict(levers),
        "ms": {_named(candidate): float(f"{each.median_ms:.4g}") for candidate, each in ranked},
        "run": best.run,
        "case": best.row.case_id,
    }


def _named(candidate: Candidate) -> str:
    route, levers = candidate
    return " ".join([route, *(f"{name}={value}" for name, value in levers)])
