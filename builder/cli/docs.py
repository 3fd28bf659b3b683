"""Write the marked figures of documents anew from the runs."""

from __future__ import annotations

from pathlib import Path

import click

from builder import quoting, tables
from builder.cli._options import PATH
from builder.cli._voice import say
from builder.disk import atomic_write
from builder.errors import Exit, UsageError


@click.command("docs")
@click.argument("documents", nargs=-1, required=True, type=PATH, metavar="DOC...")
def command(documents: tuple[Path, ...]) -> Exit:
    """Write every figure of a Markdown document that carries a marker, as the runs' raw logs have it.

    A marker stands behind its figure: 2.25×<!-- = RUN geomean(speedup) -->. It names a run or RUN/CASE, a
    column or an aggregate of one (geomean, median, mean, min, max, count; two joined by a dash for a range),
    more COLUMN=VALUE where rows must be chosen, and .2f where the digits must not be those that stand there.
    A figure of several carries its formula: A/s13 median_ms ÷ B/s13 median_ms - 1, and A … to B … is a
    range. A file beside the published runs is named with the way into it: bench/x.json figures.0.value.
    `not measured: WHY` marks a figure that no run gives. A whole run's table stands between <!-- begin: run
    RUN --> and <!-- end -->, each on a line of its own. Exit code 3: a marker leads nowhere.

    \b
    Example:  ferry docs README.md
    """
    code = Exit.OK
    for path in documents:
        try:
            text = path.read_bytes().decode()  # its line ends stay
        except (OSError, ValueError) as problem:
            raise UsageError(f"{path} cannot be read: {problem}", "give a Markdown file") from problem
        made, problems = quoting.regenerated(text)
        made, more = tables.regenerated(made)
        for problem_ in (*problems, *more):
            say(f"{path}:{problem_.line}: {problem_.sentence}")
            code = Exit.CASE_FAILED
        if made != text:
            atomic_write(path, made)
        say(f"{path}: {'written' if made != text else 'nothing to write'}")
    return code
