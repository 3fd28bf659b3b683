"""Send the stored kernel of a run again, there or elsewhere."""

from __future__ import annotations

import click

from builder import backends, rerunning, runs
from builder.cli._options import NO_REHEARSAL, WAIT_FOR_SLOT
from builder.cli._output import show_pushed
from builder.cli._pushing import guarded
from builder.cli._voice import say
from builder.clock import SystemClock
from builder.errors import Exit
from builder.rerunning import Elsewhere


@click.command("rerun")
@click.argument("run")
@click.option("--backend", default="", help="Where to run it.  [default: where it was]")
@click.option("--accelerator", default="", help="What hardware to ask for.  [default: the same]")
@click.option("--allow-accelerator-mismatch", "allow_mismatch", is_flag=True, help="Run on whatever came.")
@click.option("--name", default="", help="A name of your own for the new run.")
@NO_REHEARSAL
@WAIT_FOR_SLOT
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    run: str,
    backend: str,
    accelerator: str,
    allow_mismatch: bool,
    name: str,
    no_rehearsal: bool,
    wait_for_slot: bool,
    as_json: bool,
) -> Exit:
    """Send the stored kernel of a run again, byte for byte, as a run of its own.

    The code is the one that the run had, not today's. Only whose run it is changes in the kernel and, where
    it goes elsewhere, what it asks for.

    \b
    Example:  ferry rerun 20261130-143908 --backend manual --accelerator h200
    """
    found = runs.find(run)
    spec = rerunning.spec_for(found, Elsewhere(backend, accelerator, allow_mismatch, name))
    place = backends.load(spec.backend)
    rehearsal = place.limits().rehearse and not no_rehearsal
    again = guarded(lambda: rerunning.rerun(found, spec, place, SystemClock(), say, rehearsal, wait_for_slot))
    return show_pushed(again, place, as_json)
