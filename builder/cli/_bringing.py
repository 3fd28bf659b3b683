"""Fetch what is over of a run and show what came: its rows, or what a probe has found."""

from __future__ import annotations

from builder import crossing
from builder.backends import Backend, Status
from builder.cli import _probed
from builder.cli._output import outcome_document, tell_outcome
from builder.cli._voice import document, say
from builder.clock import SystemClock
from builder.errors import Exit
from builder.outputs import Wanted
from builder.runs import Run

Brought = tuple[Exit, dict[str, object]]


def bring(run: Run, place: Backend, wanted: Wanted, as_json: bool) -> Brought:
    """Fetch what is over of a run, show people what came unless `as_json`; return exit code and document."""
    status = crossing.fetch(run, place, SystemClock(), wanted)
    if not (run.logs() or status.state.is_over):
        return _nothing_yet(run, status, as_json)
    outcome = crossing.parse(run)
    if run.is_probe:
        probe = _probed.keep(run, place, outcome)
        if not as_json:
            _probed.tell_probe(probe)
        return outcome.exit_code, _probed.probe_document(probe, outcome.exit_code)
    state = run.state(0) or status.state
    if not as_json:
        tell_outcome(outcome, state)
    return outcome.exit_code, outcome_document(outcome, state)


def _nothing_yet(run: Run, status: Status, as_json: bool) -> Brought:
    if not as_json:
        say(f"run {run.id} is {status.state}; nothing has come back yet")
        say(status.message or f"next: ferry pull {run.id}")
    return Exit.INCOMPLETE, document(run_id=run.id, state=status.state, exit_code=Exit.INCOMPLETE)
