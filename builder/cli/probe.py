"""A throwaway kernel that reports what hardware really comes."""

from __future__ import annotations

import click

from builder import backends, probing
from builder.accelerators import choose_backend, default_accelerator
from builder.cli._bringing import bring
from builder.cli._following import follow
from builder.cli._options import WAIT
from builder.cli._pushing import push
from builder.cli._voice import in_json
from builder.errors import Exit, about
from builder.outputs import EVERYTHING


@click.command("probe")
@click.option("--accelerator", default="", help="What hardware to ask for; see `ferry accelerators`.")
@click.option("--backend", help="Where to run; see `ferry backends`.")
@click.option("--internet", is_flag=True, help="Ask for the internet too.")
@WAIT
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(accelerator: str, backend: str | None, internet: bool, patience_s: float, as_json: bool) -> Exit:
    """Push the smallest kernel and print what machine it found; exit 6 when it is not what was asked for.

    The result is kept, with its date, for each account and accelerator.

    \b
    Example:  ferry probe --accelerator NvidiaTeslaT4
    """
    chosen = choose_backend(backend, accelerator)
    place = backends.load(chosen)
    spec = probing.spec(chosen, accelerator or default_accelerator(chosen), internet)
    run = push(spec, place, rehearsal=False, when_free=False)
    with about(run.id):
        if not place.limits().by_hand:
            follow({run: place}, patience_s)
        code, document = bring(run, place, EVERYTHING, as_json)
    if as_json:
        click.echo(in_json(document))
    return code
