"""How the command line speaks: sentences for people, errors, and the one JSON envelope for programs."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import click

from builder.errors import Exit, FerryError
from builder.terminal import printable

SCHEMA = "ferry/1"


def wants_json() -> bool:
    """Whether stdout carries one JSON document."""
    return "--json" in sys.argv


def for_people() -> bool:
    """Whether people read stdout: it is a terminal and does not carry the JSON document."""
    return not wants_json() and sys.stdout is not None and sys.stdout.isatty()


def say(text: str) -> None:
    """Tell people something, made safe to show; to stderr when a program may read stdout."""
    click.echo(printable(text), err=not for_people())


def show_error(error: FerryError) -> Exit:
    """Show one red sentence and its hint, or the envelope when `--json` was given; return the exit code."""
    if wants_json():
        with contextlib.suppress(OSError):  # stdout itself may be what is wrong
            click.echo(in_json(error_document(error)))
    else:
        click.secho(printable(error.message), fg="red", err=True)
        if error.hint:
            click.echo(f"hint: {printable(error.hint)}", err=True)
    return error.exit_code


def error_document(error: FerryError) -> dict[str, object]:
    """Return what programs are told of an error."""
    content = {"error": {"message": error.message, "hint": error.hint}}
    return document(content, run_id=error.run_id, exit_code=error.exit_code)


def in_json(content: Mapping[str, object]) -> str:
    """Return the text of a JSON document."""
    return json.dumps(content, indent=2)


def document(
    content: Mapping[str, object] = MappingProxyType({}),
    *,
    run_id: str = "",
    state: str = "",
    exit_code: Exit = Exit.OK,
    counts: dict[str, int] | None = None,
    files: Sequence[Path] = (),
) -> dict[str, object]:
    """Return what a command tells programs; `content` is its own: rows, error, or what it lists."""
    return {
        "schema": SCHEMA,
        "run_id": run_id,
        "state": state,
        "exit_code": int(exit_code),
        "counts": counts or {},
        "files": [str(path) for path in files],
        **content,
    }


def envelope(
    content: Mapping[str, object] = MappingProxyType({}),
    *,
    run_id: str = "",
    state: str = "",
    exit_code: Exit = Exit.OK,
    counts: dict[str, int] | None = None,
    files: Sequence[Path] = (),
) -> str:
    """Return the text of a command's JSON document; see `document`."""
    told = document(content, run_id=run_id, state=state, exit_code=exit_code, counts=counts, files=files)
    return in_json(told)
