"""What a run will come to: parts, minutes, quota, and what will not fit."""

from __future__ import annotations

from typing import Any

import click

from builder import history, knowing, planning
from builder.bundle import make_bundle
from builder.cli._options import ConfiguredCommand, make_spec, spec_options
from builder.cli._output import envelope, say
from builder.clock import SystemClock
from builder.errors import Exit


@click.command("plan", cls=ConfiguredCommand)
@spec_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(as_json: bool, **options: Any) -> Exit:
    """Say what a run will come to, before anything is spent; nothing is built and nothing sent.

    It takes the options of `ferry run`. How long a case takes is learned from past runs of its shape on such
    a device, else estimated. What does not fit the budget, a quota or a session is named.

    \b
    Example:  ferry plan --suite official --backend kaggle,local --budget 3h
    """
    spec, clock = make_spec(**options), SystemClock()
    past = history.gather({case.shape.key for case in spec.cases})
    if spec.reuse:
        spec = knowing.recall(spec, make_bundle(spec), past, clock)
    plan = planning.make(spec, clock, past)
    if as_json:
        click.echo(envelope(planning.document(plan)))
    else:
        say("\n".join(planning.lines(plan)))
    return Exit.OK
