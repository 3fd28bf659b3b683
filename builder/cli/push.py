"""Build and submit; succeeds only if the service accepted it."""

from __future__ import annotations

from typing import Any

import click

from builder import backends, crossing, submission
from builder.cli._options import ConfiguredCommand, make_spec, spec_options
from builder.cli._output import envelope, say
from builder.errors import Exit


@click.command("push", cls=ConfiguredCommand)
@spec_options
@click.option("--no-rehearsal", is_flag=True, help="Skip the tiny case that runs here before a push.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(no_rehearsal: bool, as_json: bool, **options: Any) -> Exit:
    """Build and submit; prints the run's id and the next command.

    \b
    Example:  ferry push --backend manual --accelerator h200 --suite official --route sdpa
    """
    spec = make_spec(**options)
    backend = backends.load(spec.backend)
    run = crossing.push(spec, backend, not no_rehearsal, say)
    accepted = submission.submit(run, crossing.PART, backend)
    now = submission.status(run, crossing.PART, accepted, backend)
    if as_json:
        files = sorted(run.part(crossing.PART).glob("kernel*"))
        click.echo(envelope({"url": accepted.url}, run_id=run.id, state=now.state, files=files))
        return Exit.OK
    say(f"run {run.id} is {now.state} on {spec.backend} {accepted.url}".rstrip())
    say(now.message or f"next: ferry pull {run.id}")
    return Exit.OK
