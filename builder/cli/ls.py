"""The runs there are, the newest first."""

from __future__ import annotations

from typing import Any

from builder import runs
from builder.cli._listing import listing
from builder.terminal import printable


def _records() -> list[dict[str, Any]]:
    return [
        {
            "run_id": run.id,
            "state": run.state(0) or run.state(1),
            "backend": run.spec.backend,
            "suite": run.spec.suite,
            "cases": len(run.spec.cases),
            "name": printable(run.spec.name),
        }
        for run in runs.all_runs()
    ]


command = listing("ls", "List the runs there are, the newest first.", _records)
