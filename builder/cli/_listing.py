"""What the commands that list something have in common: lines for people, records for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from builder.cli._output import envelope, say
from builder.errors import Exit
from builder.terminal import one_line


def listing(
    name: str, about: str, records: Callable[[], Sequence[dict[str, Any]]], foot: str = ""
) -> click.Command:
    """Return the command `name` that lists `records`, one line each with the columns aligned."""

    @click.command(name, help=f"{about}\n\n\b\nExample:  ferry {name}")
    @click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
    def command(as_json: bool) -> Exit:
        found = records()
        if as_json:
            click.echo(envelope({name: found}))
        for line in () if as_json else (*_aligned(found), *filter(None, [foot])):
            say(line)
        return Exit.OK

    return command


def _aligned(records: Sequence[dict[str, Any]]) -> list[str]:
    lines = [list(record) for record in records[:1]]
    lines += [[one_line(str(value)) for value in record.values()] for record in records]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
