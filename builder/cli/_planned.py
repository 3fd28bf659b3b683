"""What a command of a document would measure, with the options and configuration that it has there."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import click

from builder.cli import ferry
from builder.cli._options import selection_of
from builder.errors import FerryError
from builder.headlines import Planned
from builder.spec import plan


def planned(words: Sequence[str], folder: Path) -> Planned | None:
    """Return what `ferry WORDS` would measure in a folder; None where that is no command that can run."""
    command = ferry.get_command(click.Context(ferry), words[0])
    if command is None or not folder.is_dir():
        return None
    try:
        with contextlib.chdir(folder), command.make_context(words[0], list(words[1:])) as context:
            options = {name: value for name, value in context.params.items() if name != "for_script"}
            model = options["model"]
            cases = plan(selection_of(**options))
    except (FerryError, click.ClickException, click.exceptions.Exit):
        return None
    return Planned(frozenset(case.id for case in cases), folder / model if model else None)
