"""Recompute a published run from its raw log, and say what that cannot vouch for."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from builder import archive, verifying
from builder.cli._options import PATH
from builder.cli._voice import envelope, say
from builder.errors import Exit, UsageError
from builder.verifying import Verdict


@click.command("verify")
@click.argument("place", type=PATH, metavar="FOLDER|ZIP")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(place: Path, as_json: bool) -> Exit:
    """Recompute a published run: manifest, seals, sources, and every CSV from the raw log, byte for byte.

    It needs nothing but the folder or ZIP. Exit code 3: something was found; 4: the run is not whole.

    \b
    Example:  ferry verify runs/published/20261130-143908-d535ad
    """
    if not place.exists():
        raise UsageError(f"there is nothing at {place}", "give the folder or ZIP of a published run")
    verdict = _verdict(place)
    if as_json:
        content = {"held": verdict.held, "found": verdict.found, "caveats": verdict.caveats}
        click.echo(envelope(content, run_id=verdict.run_id, exit_code=verdict.exit_code, files=[place]))
    else:
        say("\n".join(verdict.lines()))
    return verdict.exit_code


def _verdict(place: Path) -> Verdict:
    if place.is_dir():
        return verifying.verify(place.resolve())
    with tempfile.TemporaryDirectory(prefix="ferry-verify-") as folder:
        return verifying.verify(archive.unpack(place, Path(folder)))
