"""A throwaway kernel that reports what hardware really comes."""

from __future__ import annotations

import click

from builder import backends, crossing, probing
from builder.accelerators import choose_backend, default_accelerator
from builder.backends import Backend
from builder.cli._following import follow
from builder.cli._options import WAIT
from builder.cli._output import envelope, say
from builder.cli._pushing import push
from builder.clock import SystemClock
from builder.errors import Exit, IncompleteError, about
from builder.probing import Probe
from builder.runs import Run, now_text
from builder.terminal import one_line
from harness.events import Hardware


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
            follow(run, place, patience_s)
        status = crossing.fetch(run, place, SystemClock())
        outcome = crossing.parse(run)
        hardware = outcome.records.hardware
        if hardware is None:
            said = f"the probe {run.id} is {status.state} and has reported nothing"
            raise IncompleteError(said, status.message or f"see ferry logs {run.id}")
        return _show(_probe(run, place, hardware), outcome.exit_code, as_json)


def _probe(run: Run, place: Backend, hardware: Hardware) -> Probe:
    return Probe(now_text(), place.name, place.account(), run.spec.accelerator, run.id, hardware)


def _show(probe: Probe, code: Exit, as_json: bool) -> Exit:
    kept = probe.keep()
    finding = probe.hardware.finding
    if as_json:
        content = {"probe": probe.plain(), "matches": not finding}
        click.echo(envelope(content, run_id=probe.run_id, state="parsed", exit_code=code, files=[kept]))
        return code
    for name, value in probe.facts().items():
        say(f"{name:10}  {one_line(str(value))}".rstrip())
    say(f"not what was asked for: {one_line(finding)}" if finding else "it is what was asked for")
    say(str(kept))
    return code
