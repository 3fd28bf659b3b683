"""Push, wait and pull in one go."""

from __future__ import annotations

from typing import Any

import click

from builder import backends, crossing
from builder.cli._following import follow
from builder.cli._options import DURATION, ConfiguredCommand, make_spec, spec_options
from builder.cli._output import envelope, say, show_outcome
from builder.errors import Exit


@click.command("run", cls=ConfiguredCommand)
@spec_options
@click.option("--wait", "patience_s", type=DURATION, default="0", help="How long to wait; 0 is for ever.")
@click.option("--detach", is_flag=True, help="Return once the run has started.")
@click.option("--no-rehearsal", is_flag=True, help="Skip the tiny case that runs here before a push.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(patience_s: float, detach: bool, no_rehearsal: bool, as_json: bool, **options: Any) -> Exit:
    """Push, wait and pull in one go; with no option: suite `smoke` on this machine.

    \b
    Example:  ferry run --suite official --shapes 1-5,7 --route sdpa
    """
    spec = make_spec(**options)
    backend = backends.load(spec.backend)
    run = crossing.push(spec, backend, not no_rehearsal, say)
    if detach:
        if as_json:
            click.echo(envelope(run_id=run.id, state=run.state(crossing.PART)))
        else:
            say(f"run {run.id} goes on by itself. Come back with: ferry pull {run.id}")
        return Exit.OK
    say(f"run {run.id}: {len(spec.cases)} cases on {spec.backend}")
    follow(run, backend, patience_s)
    crossing.fetch(run, backend)
    return show_outcome(crossing.parse(run), run.state(0), as_json)
