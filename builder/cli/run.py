"""Push, wait and pull in one go."""

from __future__ import annotations

from typing import Any

import click

from builder import backends, crossing
from builder.cli import _dealing
from builder.cli._following import follow
from builder.cli._options import (
    DETACH,
    NO_REHEARSAL,
    WAIT,
    WAIT_FOR_SLOT,
    ConfiguredCommand,
    make_spec,
    spec_options,
)
from builder.cli._output import say, show_outcome, show_pushed
from builder.cli._pushing import push
from builder.clock import SystemClock
from builder.errors import Exit, about


@click.command("run", cls=ConfiguredCommand)
@spec_options
@WAIT
@DETACH
@NO_REHEARSAL
@WAIT_FOR_SLOT
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    patience_s: float, detach: bool, no_rehearsal: bool, wait_for_slot: bool, as_json: bool, **options: Any
) -> Exit:
    """Push, wait and pull in one go; with no option: suite `smoke` on this machine.

    \b
    Example:  ferry run --suite official --shapes 1-5,7 --route sdpa
    """
    spec = make_spec(**options)
    backend = backends.load(spec.backend)
    # Where a run begins here and now, it is its own rehearsal.
    rehearsal = backend.limits().rehearse and not no_rehearsal
    if spec.is_dealt:
        return (
            _dealing.push(spec, rehearsal, as_json)
            if detach
            else _dealing.run(spec, patience_s, rehearsal, as_json)
        )
    run = push(spec, backend, rehearsal=rehearsal, when_free=wait_for_slot)
    if detach or backend.limits().by_hand:
        return show_pushed(run, backend, as_json)
    say(f"run {run.id}: {len(spec.cases)} cases on {spec.backend}")
    with about(run.id):
        follow({run: backend}, patience_s)
        crossing.fetch(run, backend, SystemClock())
        return show_outcome(crossing.parse(run), run.state(0), as_json)
