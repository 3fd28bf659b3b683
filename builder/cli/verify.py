"""Recompute a published run from its raw log, and say what that cannot vouch for."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from builder import archive, serving, verifying
from builder.cli._voice import envelope, say
from builder.errors import Exit, UsageError
from builder.verifying import Verdict


@click.command("verify")
@click.argument("place", metavar="FOLDER|ZIP|kaggle:OWNER/SLUG/N")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(place: str, as_json: bool) -> Exit:
    """Recompute a published run: manifest, seals, sources, and every CSV from the raw log, byte for byte.

    It needs nothing but the folder or ZIP. With kaggle:OWNER/SLUG/N source and log of that version are
    fetched from the service, and the source is shown to be the bundle that the log is of, and that a run here
    has. Exit code 3: something was found; 4: the run is not whole.

    \b
    Example:  ferry verify runs/published/20261130-143908-d535ad
    """
    verdict = _verdict(place)
    if as_json:
        content = {"held": verdict.held, "found": verdict.found, "caveats": verdict.caveats}
        click.echo(envelope(content, run_id=verdict.run_id, exit_code=verdict.exit_code, files=[Path(place)]))
    else:
        say("\n".join(verdict.lines()))
    return verdict.exit_code


def _verdict(place: str) -> Verdict:
    backend, colon, reference = place.partition(":")
    path = Path(place)
    if path.is_dir():
        return verifying.verify(path.resolve())
    with tempfile.TemporaryDirectory(prefix="ferry-verify-") as folder:
        if colon and backend == "kaggle":
            from builder.backends.kaggle import Kaggle

            return serving.serve(reference, Kaggle(), Path(folder))
        if not path.exists():
            raise UsageError(f"there is nothing at {place}", "give the folder or ZIP of a published run")
        return verifying.verify(archive.unpack(path, Path(folder)))
