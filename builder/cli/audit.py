"""Hold runs against their raw logs, and documents against what there is."""

from __future__ import annotations

from pathlib import Path

import click

from builder import audit, headlines, mentions, predicates, quoting, runnable, runs, tables
from builder.cli import ferry
from builder.cli._options import PATH
from builder.cli._planned import planned
from builder.cli._voice import envelope, say
from builder.disk import PUBLISHED
from builder.errors import Exit, UsageError
from builder.mentions import World


@click.command("audit")
@click.argument("documents", nargs=-1, type=PATH, metavar="[DOC]...")
@click.option("--run", "running", is_flag=True, help="Also run the code blocks that a document marks.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(documents: tuple[Path, ...], running: bool, as_json: bool) -> Exit:
    """Make every CSV and every events file of every run anew from its raw log, and compare byte for byte.

    For published runs manifest, kernel, seals and index are checked, too. Each difference is named with its
    file and line, and a hint says where the true copy is.

    With Markdown documents, those are audited instead: each command, option, path, run, `make` goal and
    module that they mention must exist, and each figure in ×, ms, % or tokens/s must have a marker (see
    `ferry docs`), be what the runs' raw logs give, and stand where nothing near it names another device,
    dtype, route or protocol. What nobody measured is declared, <!-- settings: 95 %, 5 % -->. What is said of
    a route or a lever in words alone (faster, hurts, fails the gate) carries its condition, <!-- holds:
    RUN/CASE status=failed_gate -->, or <!-- holds: not measured: WHY -->. The first figure in × must be what
    a command of the document runs. With --run the code blocks are run that have <!-- ferry audit runs
    this --> before them, or <!-- ferry audit runs this: exit 3, 20 s -->: in a copy of what git tracks, with
    a time limit, offline. Exit code 3: something was found.

    \b
    Example:  ferry audit README.md
    """
    return _documents(documents, running, as_json) if documents else _runs(as_json)


def _runs(as_json: bool) -> Exit:
    audited = list(audit.audit(runs.runs_root()))
    held = [one for one in audited if not (one.found or one.skipped)]
    found = [one for one in audited if one.found]
    code = Exit.CASE_FAILED if found else Exit.OK
    if as_json:
        content = {
            "found": [str(one.place / sentence) for one in found for sentence in one.found],
            "hints": [hint for one in found for hint in one.copies],
            "skipped": {str(one.place): one.skipped for one in audited if one.skipped},
        }
        counts = {"held": len(held), "found": len(found), "skipped": len(audited) - len(held) - len(found)}
        click.echo(envelope(content, exit_code=code, counts=counts))
        return code
    for one in found:
        say("\n".join(one.lines()))
    skipped = [one.place.name for one in audited if one.skipped]
    note = f"; not finished: {', '.join(skipped)}" if skipped else ""
    runs_held = sum(one.place.name != PUBLISHED for one in held)
    say(f"{runs_held} runs are what their raw logs make; something was found in {len(found)} places{note}")
    return code


def _documents(documents: tuple[Path, ...], running: bool, as_json: bool) -> Exit:
    found = [f"{path}:{miss.line}: {miss.sentence}" for path in documents for miss in _misses(path, running)]
    code = Exit.CASE_FAILED if found else Exit.OK
    if as_json:
        click.echo(envelope({"found": found}, exit_code=code, counts={"found": len(found)}))
        return code
    for sentence in found:
        say(sentence)
    say(f"{len(documents)} documents: {len(found)} things in them are not so")
    if not running and (count := sum(map(_marked, documents))):
        say(f"{count} marked code blocks were not run; --run runs them")
    return code


def _misses(path: Path, running: bool) -> list[mentions.Miss]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as problem:
        raise UsageError(
            f"{path} cannot be read as a document: {problem}", "give a Markdown file"
        ) from problem
    folder = path.resolve().parent
    tops = (place for place in (folder, *folder.parents) if (place / ".git").exists())
    known = [run.id for run in (*runs.all_runs(), *runs.published_runs())]
    world = World(_commands(), next(tops, folder), known)
    found = [
        *mentions.misses(text, folder, world),
        *quoting.misses(text),
        *predicates.misses(text),
        *tables.misses(text),
        *headlines.misses(text, folder, planned),
        *(runnable.misses(text, folder, world.root) if running else ()),
    ]
    return sorted(found, key=lambda miss: miss.line)


def _marked(path: Path) -> int:
    return len(list(runnable.runnables(path.read_text(encoding="utf-8"))))


def _commands() -> dict[str, dict[str, bool]]:
    """Return every command's options, each with whether it takes a value."""
    context = click.Context(ferry)
    return {
        name: {
            option: isinstance(parameter, click.Option) and not (parameter.is_flag or parameter.count)
            for parameter in one.params
            for option in (*parameter.opts, *parameter.secondary_opts)
            if option.startswith("-")
        }
        for name in ferry.list_commands(context)
        if (one := ferry.get_command(context, name))
    }
