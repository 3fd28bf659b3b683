"""Build and submit; succeeds only if the service accepted it."""

from __future__ import annotations

from typing import Any

import click

from builder import backends, crossing
from builder.cli._options import NO_REHEARSAL, ConfiguredCommand, make_spec, spec_options
from builder.cli._output import say, show_pushed
from builder.clock import SystemClock
from builder.errors import Exit


@click.command("push", cls=ConfiguredCommand)
@spec_options
@NO_REHEARSAL
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(no_rehearsal: bool, as_json: bool, **options: Any) -> Exit:
    """Build and submit; prints the run's id and the next command.

    \b
    Example:  ferry push --backend manual --accelerator h200 --suite official --route sdpa
    """
    spec = make_spec(**options)
    backend = backends.load(spec.backend)
    run = crossing.push(spec, backend, SystemClock(), not no_rehearsal, say)
    return show_pushed(run, backend, as_json)
