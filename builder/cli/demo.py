"""One minute of what goes wrong elsewhere, beside what ferry says."""

from __future__ import annotations

import textwrap

import click

from builder import demo
from builder.cli._voice import envelope, for_people
from builder.demo import Scene
from builder.demo.stage import Act
from builder.errors import Exit
from builder.terminal import printable

WIDTH = 80
_COLOURS = {"usual": "yellow", "ferry": "cyan"}
_NO_TORCH = "Left out: it needs torch, and this Python has none: pip install 'gpuferry[torch]'"


@click.command("demo")
@click.argument("scene", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(scene: str | None, as_json: bool) -> Exit:
    """Play scenes of what goes wrong elsewhere, each beside what ferry says; SCENE plays one only.

    No account, no network: Kaggle's own client, everyday scripts and ferry itself are really run, in a
    temporary folder, against a small service on this machine that answers as Kaggle's does.

    \b
    Example:  ferry demo refused-push
    """
    rows = []
    for found in demo.programme(scene):
        _say("" if as_json else _headline(found), bold=True)
        acts = []
        for act in found.acts() if found.can_play else ():
            acts.append(vars(act))
            if not as_json:
                _show(act)
        if not as_json:
            _say(_indented(found.content.MORAL if found.can_play else _NO_TORCH, 2))
        rows.append({"scene": found.name, "title": found.title, "skipped": not found.can_play, "acts": acts})
    if as_json:
        skipped = sum(not row["acts"] for row in rows)
        click.echo(envelope({"rows": rows}, counts={"played": len(rows) - skipped, "skipped": skipped}))
    return Exit.OK


def _headline(scene: Scene) -> str:
    rule = "─" * (WIDTH - len(scene.title) - len(scene.name) - 2)
    return f"\n{scene.title} {rule} {scene.name}"


def _show(act: Act) -> None:
    colour = _COLOURS[act.by]
    click.secho(f"  {act.by}  $ ", fg=colour, nl=False, err=not for_people())
    _say(_indented(act.command, 11).lstrip(), bold=True)
    for line in act.told:
        _say(_indented(line, 11))
    _say(f"{'':11}exit {act.exit_code}", fg=colour, bold=True)


def _indented(text: str, columns: int) -> str:
    margin = " " * columns
    return textwrap.fill(
        " ".join(printable(text).split()),
        WIDTH,
        initial_indent=margin,
        subsequent_indent=margin,
        break_on_hyphens=False,
    )


def _say(text: str, **style: str | bool) -> None:
    if text:
        click.secho(text, err=not for_people(), **style)  # type: ignore[arg-type]
