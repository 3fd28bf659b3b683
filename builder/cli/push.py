"""Build and submit; succeeds only if the service accepted it."""

from __future__ import annotations

from typing import Any

import click

from builder import backends
from builder.cli import _dealing
from builder.cli._options import NO_REHEARSAL, WAIT_FOR_SLOT, ConfiguredCommand, make_spec, spec_options
from builder.cli._output import show_pushed
from builder.cli._pushing import push
from builder.errors import Exit


@click.command("push", cls=ConfiguredCommand)
@spec_options
@NO_REHEARSAL
@WAIT_FOR_SLOT
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(no_rehearsal: bool, wait_for_slot: bool, as_json: bool, **options: Any) -> Exit:
    """Build and submit; prints the run's id and the next command.

    \b
    Example:  ferry push --backend manual --accelerator h200 --suite official --route sdpa
    """
    spec = make_spec(**options)
    if spec.is_dealt:
        return _dealing.push(spec, not no_rehearsal, as_json)
    backend = backends.load(spec.backend)
    run = push(spec, backend, rehearsal=not no_rehearsal, when_free=wait_for_slot)
    return show_pushed(run, backend, as_json)
