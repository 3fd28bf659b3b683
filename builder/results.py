"""Records to rows to CSV. One row per planned case, whatever became of it; all of it from the log."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from itertools import zip_longest
from pathlib import Path
from typing import Any

from builder.errors import Exit, worst
from builder.records import CaseRecord, Records
from builder.runs import atomic_write
from builder.stats import Comparison, Word
from builder.terminal import printable
from builder.timings import flags_of, timing_of
from harness.events import CaseDone, Device, Gate, Plan, Profile, Work, is_simulated

SCHEMA = 1
_MOST = 2**63  # of what a profile counts: a log may hold integers that no float can


@dataclass(frozen=True)
class Row:
    """One line of `results.csv`; the order of the fields is the order of the columns."""

    schema: int
    run_id: str
    case_id: str
    part: int
    attempt: int | None
    shape: str
    batch: int
    seq_len: int
    d_model: int
    heads: int
    ffn_dim: int
    layers: int
    route: str
    route_ran: str
    route_note: str
    levers: dict[str, str]
    dtype: str
    protocol: str
    status: str
    error_kind: str = ""
    error: str = ""
    reference: str = ""
    coverage: float | None = None
    weight_seeds: tuple[int, ...] = ()
    input_seeds: tuple[int, ...] = ()
    tf32: str = ""
    attention_backend: str = ""
    aliases_output: bool | None = None
    failed_elements: int | None = None
    total_elements: int | None = None
    max_abs: float | None = None
    max_rel: float | None = None
    gate_share: float | None = None
    margin: float | None = None
    baseline_median_ms: float | None = None
    median_ms: float | None = None
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    noise_floor: float | None = None
    samples: int = 0
    first_call_s: float | None = None
    compile_s: float | None = None
    tokens_per_s: float | None = None
    peak_mem_mib: float | None = None
    flags: dict[str, str] = field(default_factory=dict)
    asked_accelerator: str = ""
    device: str = ""
    capability: str = ""
    device_index: int | None = None
    driver: str = ""
    torch: str = ""
    triton: str = ""
    python: str = ""
    harness_sha256: str = ""
    model_sha256: str = ""
    bundle_sha256: str = ""
    git_commit: str = ""
    git_dirty: bool = False
    started_at: str = ""

    @property
    def verdict(self) -> Word | None:
        """Whether the candidate is faster than the baseline by more than noise; None without a speed-up."""
        if not (self.speedup and self.speedup_low and self.speedup_high):
            return None
        return Comparison(self.speedup, self.speedup_low, self.speedup_high, self.noise_floor).word

    @property
    def is_told(self) -> bool:
        """Whether the speed-up is a difference at all, and not within the noise."""
        return self.verdict in (Word.FASTER, Word.SLOWER)

    @property
    def is_simulated(self) -> bool:
        """Whether its device was made up: it measures nothing, and is never ranked, published or audited."""
        return is_simulated(self.device)


COLUMNS = tuple(f.name for f in fields(Row))


def rows(records: Records) -> list[Row]:
    """Return one row per planned case, in the plan's order."""
    return [_row(records, case) for case in records.cases]


def _row(records: Records, record: CaseRecord) -> Row:
    case, done, plan = record.case, record.done, record.plan
    timing = timing_of(record) if done and done.status == "passed" else None
    return Row(
        schema=SCHEMA,
        run_id=records.run_id,
        case_id=case.id,
        part=record.part,
        attempt=record.attempt,
        shape=case.shape.key,
        batch=case.shape.batch,
        seq_len=case.shape.seq_len,
        d_model=case.shape.d_model,
        heads=case.shape.heads,
        ffn_dim=case.shape.ffn_dim,
        layers=case.shape.layers,
        route=case.route,
        levers=case.levers,
        dtype=case.dtype,
        protocol=case.protocol,
        **_said(done, record),
        **_gate(done.gate if done else None),
        **(vars(timing) if timing else {}),
        **_provenance(plan, record.device),
    )


def _said(done: CaseDone | None, record: CaseRecord) -> dict[str, Any]:
    """The columns that a case's last event says as they are; without one the case is unknown."""
    if done is None:
        return {"status": "unknown", "error": record.reason, "route_ran": "", "route_note": ""}
    names = ("status", "error_kind", "error", "route_ran", "route_note", "tf32", "attention_backend")
    more = ("aliases_output", "samples", "first_call_s", "compile_s", "peak_mem_mib", "flags")
    told = {"unsealed": record.unsealed, "from": record.origin}
    timed = flags_of(record) if done.status == "passed" else {}
    flags = done.flags | _worst(done.gate) | {name: one for name, one in told.items() if one} | timed
    return {name: getattr(done, name) for name in (*names, *more)} | {"flags": flags}


def _worst(gate: Gate | None) -> dict[str, str]:
    """Where the gate came closest, or failed; older events do not say."""
    if gate is None or not gate.worst_index:
        return {}
    failed = {"failed_features": _list(gate.failed_dims)} if gate.failed_dims else {}
    return {
        "worst_at": _list(gate.worst_index),
        "worst_seeds": _list(gate.worst_seeds),
        "worst_reference": cell(gate.worst_reference),
        "worst_output": cell(gate.worst_output),
        **failed,
    }


def _list(numbers: Iterable[int]) -> str:
    return "/".join(map(str, numbers))


def _gate(gate: Gate | None) -> dict[str, Any]:
    if gate is None:
        return {}
    figures = {name: value for name, value in vars(gate).items() if name in COLUMNS}
    return {**figures, "margin": gate.atol / gate.max_abs if gate.max_abs else float("inf")}


def _provenance(plan: Plan, device: Device | None) -> dict[str, Any]:
    terms, ref = plan.terms, plan.ref
    told = {
        "asked_accelerator": terms.asked_accelerator,
        "harness_sha256": terms.harness_sha256,
        "model_sha256": terms.model_sha256,
        "bundle_sha256": terms.bundle_sha256,
        "git_commit": ref.git_commit,
        "git_dirty": ref.git_dirty,
        "started_at": plan.started_at,
    }
    if device is None:
        return told
    names = ("capability", "driver", "torch", "triton", "python")
    return {
        **told,
        "device": device.name,
        "device_index": device.index if device.is_gpu else None,
        **{name: getattr(device, name) for name in names},
    }


# --- CSV --------------------------------------------------------------------------------------------------


def cell(value: object) -> str:
    """Return a value as a CSV cell: numbers with 6 significant digits, unset as empty, texts printable."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        value = ";".join(f"{name}={item}" for name, item in value.items())
    if isinstance(value, tuple):
        value = " ".join(map(str, value))
    return printable(str(value))


def results_csv(table: Sequence[Row]) -> str:
    """Return the text of `results.csv`."""
    return _csv(COLUMNS, ([getattr(row, name) for name in COLUMNS] for row in table))


def samples_csv(records: Records) -> str:
    """Return the text of `samples.csv`: every raw sample in nanoseconds, under its case, side and round.

    Where sides take turns, a round is a block, samples of the same index are of the same turn, and `position`
    is the sample's place among all calls of its block.
    """
    lines = (
        (record.case.id, side, number, index, place, ns)
        for record in records.cases
        for side, rounds in sorted(record.samples.items())
        for number, (samples, places) in enumerate(zip(rounds, record.places[side], strict=True))
        for index, (ns, place) in enumerate(zip_longest(samples, places))
    )
    return _csv(("case_id", "side", "round", "index", "position", "ns"), lines)


def profile_csv(records: Records) -> str:
    """Return the text of `profile.csv`: the longest work of each side, per call; empty without a profile."""
    lines = [
        (record.case.id, profile.side, rank, work.name, *_figures(work, profile))
        for record in records.cases
        for profile in record.profiles
        for rank, work in enumerate(profile.top, 1)
    ]
    return (
        _csv(("case_id", "side", "rank", "name", "per_call", "us_per_call", "share"), lines) if lines else ""
    )


def _figures(work: Work, profile: Profile) -> tuple[float, float, float]:
    calls, count, ns = max(1, profile.calls), min(work.count, _MOST), min(work.ns, _MOST)
    return count / calls, ns / calls / 1e3, ns / min(max(1, profile.total_ns), _MOST)


def _csv(header: Iterable[str], lines: Iterable[Iterable[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([cell(value) for value in line] for line in lines)
    return text.getvalue()


def write(records: Records, results: Path, samples: Path | None = None) -> list[Row]:
    """Write the CSVs from the records, whole, and return the rows."""
    table = rows(records)
    atomic_write(results, results_csv(table))
    if samples:
        atomic_write(samples, samples_csv(records))
    return table


# --- the verdict ------------------------------------------------------------------------------------------

_FAILED = frozenset({"failed_gate", "error", "oom", "timeout", "disqualified"})
_MISSING = frozenset({"unknown", "not_run"})


def exit_code(records: Records, table: Sequence[Row]) -> Exit:
    """Return what the rows amount to: 6 wrong accelerator, 4 something missing, 3 a case failed, else 0."""
    codes = [Exit.OK]
    if records.end_reason == "wrong_accelerator":
        codes.append(Exit.WRONG_ACCELERATOR)
    if not records.complete or any(row.status in _MISSING for row in table):
        codes.append(Exit.INCOMPLETE)
    if any(row.status in _FAILED for row in table):
        codes.append(Exit.CASE_FAILED)
    return worst(*codes)


def counts(table: Iterable[Row]) -> dict[str, int]:
    """Return how many rows have each status."""
    totals: dict[str, int] = {}
    for row in table:
        totals[row.status] = totals.get(row.status, 0) + 1
    return totals
