"""Completion for your shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from builder.errors import Exit


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> Exit:
    """Print the completion script for SHELL.

    \b
    Example:  ferry completion bash >> ~/.bashrc
    """
    from builder.cli import ferry

    completion = get_completion_class(shell)
    assert completion is not None
    click.echo(completion(ferry, {}, "ferry", "_FERRY_COMPLETE").source())
    return Exit.OK
