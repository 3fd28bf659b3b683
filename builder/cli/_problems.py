"""Whatever ended a command, as an error in our words."""

from __future__ import annotations

import traceback
from pathlib import Path

import click
from click.core import ParameterSource

from builder.errors import BugError, FerryError, InfrastructureError, InterruptError, UsageError


def in_our_words(problem: BaseException) -> FerryError:
    """Return the error to show. What nobody has foreseen is a BugError; its traceback is printed here."""
    match problem:
        case FerryError():
            return problem
        case click.ClickException():
            return UsageError(problem.format_message(), _hint(problem))
        case click.Abort() | KeyboardInterrupt():
            return InterruptError(
                "interrupted", "`ferry status` says what became of the run, if one had begun"
            )
        case RuntimeError() if "home directory" in str(problem):
            return UsageError(
                "this user has no home directory", "let HOME name a folder, for example HOME=/tmp"
            )
        case OSError() if not _has_folder():
            return UsageError("the folder that this shell is in is gone", "change to one that is there")
        case OSError(strerror=str(reason)):
            what = f"{problem.filename} cannot be used" if problem.filename else "reading or writing failed"
            return InfrastructureError(f"{what}: {reason}", "is it there, has it room, may you write to it?")
    traceback.print_exception(problem)
    return BugError(
        f"a fault of ferry's own: {type(problem).__name__}: {problem}",
        "please report it with the lines above",
    )


def _hint(problem: click.ClickException) -> str:
    """Say where a wrong word was set when it was not on the command line, else where the right ones are."""
    context = getattr(problem, "ctx", None)
    parameter = getattr(problem, "param", None)
    if context is None:
        return "`ferry --help` lists the commands"
    if parameter is not None:
        source = context.get_parameter_source(parameter.name)
        if source is ParameterSource.ENVIRONMENT:
            return f"the environment variable {parameter.envvar} sets it"
        if source is ParameterSource.DEFAULT_MAP:
            return "ferry.toml, or your own config.toml, sets it"
    return f"`{context.command_path} --help` shows what it takes"


def _has_folder() -> bool:
    try:
        Path.cwd()
    except OSError:
        return False
    return True
