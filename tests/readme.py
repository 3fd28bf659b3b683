"""Writes the generated blocks of README.md: `python -m tests.readme`; with `--check` it names stale lines.

A block lies between `<!-- begin: NAME [ARGUMENT] -->` and `<!-- end -->`; a function here is named like it.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path

import click

from builder import errors, estimates, tables
from builder.cli.run import command as run_command
from builder.overview import commands as commands_of_ferry
from builder.overview import short_help
from builder.results import COLUMNS
from harness.events import STATUSES
from harness.shapes import SUITES
from tests.command import run_ferry

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PUBLISHED = ROOT / "runs" / "published"
_BLOCK = re.compile(r"(<!-- begin: (\S+)(?: (\S+))? -->\n).*?(<!-- end -->)", re.DOTALL)


def commands(_: str) -> str:
    """Every command with its short help."""
    rows = [f"| `ferry {name}` | {short_help(path)} |" for name, path in commands_of_ferry().items()]
    return "\n".join(["| command | does |", "|---|---|", *rows])


def options(_: str) -> str:
    """The options of `ferry run`."""
    with click.Context(run_command, info_name="ferry run", max_content_width=100) as context:
        return f"```\n{run_command.get_help(context)}\n```"


def exit_codes(_: str) -> str:
    """The exit codes, from the tree of errors."""
    _, tree, rows = inspect.cleandoc(errors.__doc__ or "").split("\n\n")
    return f"```\n{tree}\n```\n\n{rows}"


def suites(_: str) -> str:
    """The suites."""
    rows = [f"| `{suite.name}` | {len(suite.shapes)} | {suite.about} |" for suite in SUITES.values()]
    return "\n".join(["| suite | shapes | what |", "|---|--:|---|", *rows])


def columns(_: str) -> str:
    """The columns of `results.csv` and the values of `status`."""
    statuses = ", ".join(f"`{status}`" for status in STATUSES)
    return f"`{', '.join(COLUMNS)}`\n\n`status` is one of {statuses}."


def bench(name: str) -> str:
    """What gpuferry itself costs, as `make bench` measured it; other tables of the kind have a name."""
    return (PUBLISHED / "bench" / f"{name or 'bench'}.md").read_text(encoding="utf-8").strip()


def estimate(device: str) -> str:
    """What a card should take for the official shapes, by the model of it."""
    return estimates.table(device.replace("-", " "))


@functools.cache
def demo(scene: str) -> str:
    """One of the demo's scenes, played anew: what it shows must be the same each time."""
    said = run_ferry("demo", scene).stderr.strip()
    return f"```\n{said}\n```"


BLOCKS: dict[str, Callable[[str], str]] = {
    "commands": commands,
    "options": options,
    "exit-codes": exit_codes,
    "suites": suites,
    "columns": columns,
    "run": tables.table,
    "bench": bench,
    "estimate": estimate,
    "demo": demo,
}


def regenerated(text: str) -> str:
    """Return the README's text with every block made anew."""
    return _BLOCK.sub(lambda found: f"{found[1]}{BLOCKS[found[2]](found[3] or '')}\n{found[4]}", text)


def stale(text: str) -> list[str]:
    """Return each line of the README that is not what code and runs say, with its number."""
    pairs = zip_longest(text.split("\n"), regenerated(text).split("\n"))
    return [
        f"{README.name}:{number}: {has!r}, and code and runs say {made!r}; `make docs` writes it"
        for number, (has, made) in enumerate(pairs, 1)
        if has != made
    ]


if __name__ == "__main__":
    before = README.read_text(encoding="utf-8")
    if sys.argv[1:] == ["--check"]:
        found = stale(before)
        print(*found, sep="\n", end="\n" if found else "")
        sys.exit(3 if found else 0)
    README.write_text(regenerated(before), encoding="utf-8")
    sys.exit(0)
