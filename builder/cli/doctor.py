"""Look for what is wrong and say how to mend it."""

from __future__ import annotations

import click

from builder import backends, doctor
from builder.cli._output import envelope, say
from builder.errors import Exit


@click.command("doctor")
@click.option("--backend", help="Look at this one only, and call it a fault when it is not set up.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(backend: str | None, as_json: bool) -> Exit:
    """Look at this machine and at each backend: versions, disk, library, proxy, credentials, clock.

    Only a place that has credentials here is asked anything. Exit code 3 when something is wrong.

    \b
    Example:  ferry doctor --backend kaggle
    """
    checks = []
    faults = 0
    for place, finding in doctor.examine([backend] if backend else backends.names()):
        is_fault = bool(finding.mend) and not (finding.absent and backend is None)
        faults += is_fault
        checks.append({"place": place, **vars(finding), "is_fault": is_fault})
        if not as_json:
            say(f"{'WRONG' if is_fault else 'ok':5}  {place}: {finding.what}: {finding.detail}")
            if finding.mend:
                say(f"       {'mend' if is_fault else 'if you want it'}: {finding.mend}")
    code = Exit.CASE_FAILED if faults else Exit.OK
    if as_json:
        click.echo(envelope({"checks": checks}, exit_code=code, counts={"wrong": faults}))
    else:
        say(f"{faults} of {len(checks)} checks found something wrong")
    return code
