"""The command line. One thin file a command, imported when it is used; its first line is its short help."""

from __future__ import annotations

import importlib
import os
import sys

import click

from builder.errors import Exit
from builder.overview import commands, overview

_COMMANDS = commands()
_ASKED = "_FERRY_COMPLETE"  # click's name for it: a shell asks what may come next, such as bash_complete


class LazyGroup(click.Group):
    """A group whose commands are files, imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"builder.cli.{_COMMANDS[cmd_name].stem}")
        command: click.Command = module.command
        if _ASKED in os.environ:
            from builder.cli._completing import completing

            return completing(command)
        return command

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the same text as the short cut in `builder.__main__`."""
        formatter.write(overview())


def _version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from importlib.metadata import PackageNotFoundError, version

        try:
            told = version("gpuferry")
        except PackageNotFoundError:
            told = "from its sources, not installed"
        click.echo(f"ferry {told}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Print the version."
)
def ferry() -> None:
    """Carry GPU code to a machine that has the GPU, and carry the measured results back."""


def main() -> None:
    """Run `ferry` and exit: ours in one sentence with a hint, anything unknown with its traceback."""
    try:
        if _ASKED in os.environ:
            from builder.cli._completing import answer

            sys.exit(answer(ferry, _ASKED))
        code = ferry.main(prog_name="ferry", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as help_wanted:
        help_wanted.show()
        code = Exit.USAGE
    except (Exception, KeyboardInterrupt) as problem:  # noqa: BLE001 - the last resort: nothing is hidden
        from builder.cli._output import show_error
        from builder.cli._problems import in_our_words

        code = show_error(in_our_words(problem))
    sys.exit(int(code or Exit.OK))
