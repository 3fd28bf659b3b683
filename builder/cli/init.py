"""Lay down a stub model and ferry.toml of your own, ready to run."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from builder.cli._options import PATH
from builder.cli._output import envelope, say
from builder.errors import Exit, UsageError
from builder.runs import atomic_write

TEMPLATES = Path(__file__).parent.parent.parent / "templates" / "init"


@click.command("init")
@click.argument("folder", type=PATH, default=".")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(folder: Path, as_json: bool) -> Exit:
    """Lay down a stub model and a `ferry.toml` in FOLDER; what is there already is left alone.

    \b
    Example:  ferry init my-model && cd my-model && ferry run
    """
    targets = {folder / path.name.removesuffix(".txt"): path for path in sorted(TEMPLATES.iterdir())}
    if there := [target for target in targets if target.exists()]:
        raise UsageError(f"{there[0]} is there already", "choose an empty folder")
    for target, source in targets.items():
        atomic_write(target, source.read_bytes())
    if as_json:
        click.echo(envelope(files=list(targets)))
        return Exit.OK
    for target in targets:
        say(str(target))
    say(f"next: {'' if folder == Path() else f'cd {shlex.quote(str(folder))} && '}ferry run")
    return Exit.OK
