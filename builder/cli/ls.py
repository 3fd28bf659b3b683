"""The runs there are, the newest first."""

from __future__ import annotations

from typing import Any

from builder import runs
from builder.cli._listing import listing
from builder.errors import UsageError
from builder.runs import Run


def _records() -> list[dict[str, Any]]:
    return [_record(run) for run in runs.all_runs()]


def _record(run: Run) -> dict[str, Any]:
    state = run.state(0)
    if state != "parsed":
        state = run.state((run.parts() or [0])[-1])
    try:
        spec = run.spec
    except UsageError as problem:  # one damaged run must not hide the others
        return {
            "run_id": run.id,
            "state": state,
            "backend": "",
            "suite": "",
            "cases": 0,
            "name": problem.message,
        }
    cases = len(spec.cases)
    return {
        "run_id": run.id,
        "state": state,
        "backend": spec.backend,
        "suite": spec.suite,
        "cases": cases,
        "name": spec.name,
    }


command = listing("ls", "List the runs there are, the newest first.", _records)
