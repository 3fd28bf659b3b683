"""Hold every run against its raw log."""

from __future__ import annotations

import click

from builder import audit, runs
from builder.cli._voice import envelope, say
from builder.disk import PUBLISHED
from builder.errors import Exit


@click.command("audit")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(as_json: bool) -> Exit:
    """Make every CSV and every events file of every run anew from its raw log, and compare byte for byte.

    For published runs manifest, kernel, seals and index are checked, too. Each difference is named with its
    file and line, and a hint says where the true copy is. Exit code 3: something was found.

    \b
    Example:  ferry audit
    """
    audited = list(audit.audit(runs.runs_root()))
    held = [one for one in audited if not (one.found or one.skipped)]
    found = [one for one in audited if one.found]
    code = Exit.CASE_FAILED if found else Exit.OK
    if as_json:
        content = {
            "found": [str(one.place / sentence) for one in found for sentence in one.found],
            "hints": [hint for one in found for hint in one.copies],
            "skipped": {str(one.place): one.skipped for one in audited if one.skipped},
        }
        counts = {"held": len(held), "found": len(found), "skipped": len(audited) - len(held) - len(found)}
        click.echo(envelope(content, exit_code=code, counts=counts))
        return code
    for one in found:
        say("\n".join(one.lines()))
    skipped = [one.place.name for one in audited if one.skipped]
    note = f"; no figures yet: {', '.join(skipped)}" if skipped else ""
    runs_held = sum(one.place.name != PUBLISHED for one in held)
    say(f"{runs_held} runs are what their raw logs make; something was found in {len(found)} places{note}")
    return code
