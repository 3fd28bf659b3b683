"""What the commands that list something have in common: lines for people, records for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

from builder.cli._voice import envelope, say
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
        for line in () if as_json else (*aligned(found), *filter(None, [foot])):
            say(line)
        return Exit.OK

    return command


def aligned(records: Sequence[dict[str, Any]]) -> list[str]:
    """Return a head and one line a record, the columns aligned; nothing when there is no record."""
    lines = [list(record) for record in records[:1]]
    return grid([*lines, *([str(value) for value in record.values()] for record in records)])


def grid(lines: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Return lines of cells with their columns aligned; those whose numbers are in `right`, to the right."""
    shown = [[one_line(text) for text in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return ["  ".join(_placed(line, widths, right)).rstrip() for line in shown]


def _placed(line: Sequence[str], widths: Sequence[int], right: Sequence[int]) -> Iterator[str]:
    for number, (text, width) in enumerate(zip(line, widths, strict=True)):
        yield text.rjust(width) if number in right else text.ljust(width)
