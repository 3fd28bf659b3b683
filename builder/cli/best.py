"""The champion for each shape and device, with its margin."""

from __future__ import annotations

from typing import Any

import click

from builder import best
from builder.best import Champion, Entrant
from builder.cli._listing import aligned
from builder.cli._voice import envelope, say
from builder.errors import Exit
from builder.stats import Word


@click.command("best")
@click.option("--shape", help="This shape only, as 8 or s08.")
@click.option("--device", default="", help="Part of the device's name.")
@click.option("--dtype", help="This dtype only.")
@click.option(
    "--across", type=click.Choice(["harness"]), help="Rank rows of different harnesses with one another."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(shape: str | None, device: str, dtype: str | None, across: str | None, as_json: bool) -> Exit:
    """List the fastest candidate for each shape and device, and by how much it leads.

    Compared are rows of all runs, of equal sizes, dtype, protocol, TF32 and settings, and of one harness: the
    one that measured last. Rows that did not pass, were retracted or measured on a simulated device are left
    out. A margin within the noise has a `~`.

    \b
    Example:  ferry best --device h200
    """
    key = f"s{int(shape):02}" if shape and shape.isdecimal() else shape

    def fits(cells: dict[str, str]) -> bool:
        wanted = (key in (None, cells["shape"]), dtype in (None, cells["dtype"]))
        return all(wanted) and device.lower() in cells["device"].lower()

    found = best.champions(fits, across == "harness")
    if as_json:
        click.echo(envelope({"best": [_plain(champion) for champion in found]}))
    elif found:
        say("\n".join(aligned([_line(champion) for champion in found])))
        if left_out := sum(champion.left_out for champion in found):
            say(f"left out: {left_out} rows of earlier harnesses; --across harness ranks these, too")
    else:
        say("no run has a row that counts; `ferry ls` lists the runs")
    return Exit.OK


def _line(champion: Champion) -> dict[str, Any]:
    """Return a champion as people see it."""
    entrant, cells = champion.best, champion.best.cells
    notes = (f"unsealed: {entrant.unsealed}" if entrant.unsealed else "", entrant.settings)
    return {
        "shape": cells["shape"],
        "device": cells["device"],
        "dtype": cells["dtype"],
        "protocol": cells["protocol"],
        "route": " ".join(filter(None, [cells["route"], cells["levers"]])),
        "ms": cells["median_ms"],
        "speed-up": f"{float(cells['speedup']):.3f}×" if cells["speedup"] else "",
        "margin": _margin(champion),
        "over": _named(champion.rival) if champion.rival else "",
        "run": cells["run_id"],
        "note": "; ".join(filter(None, notes)),
    }


def _named(entrant: Entrant) -> str:
    return f"{entrant.cells['route']} of {entrant.cells['run_id']}"


def _margin(champion: Champion) -> str:
    if champion.margin is None:
        return "no rival"
    told = "" if champion.word is Word.FASTER else "~"
    return f"{told}{champion.margin - 1:+.1%}"


def _plain(champion: Champion) -> dict[str, Any]:
    """Return a champion as programs see it."""

    def told(entrant: Entrant) -> dict[str, Any]:
        return {**entrant.cells, "settings": entrant.settings, "unsealed": entrant.unsealed}

    rival = told(champion.rival) if champion.rival else None
    return {
        "best": told(champion.best),
        "rival": rival,
        "margin": champion.margin,
        "word": champion.word,
        "left_out": champion.left_out,
    }
