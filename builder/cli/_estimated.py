"""What people and programs are shown of a run beside the model of its card."""

from __future__ import annotations

import dataclasses

import click

from builder.cli._listing import grid
from builder.cli._output import envelope, say
from builder.errors import Exit
from builder.holding import Held, Wrong, hold, wrongness
from builder.reading import Reading

_HEAD = ("case", "side", "bound by", "estimated ms", "measured ms", "measured / estimated")


def show_estimate(reading: Reading, as_json: bool) -> Exit:
    """Show each time beside its estimate, and by how much the model is wrong in all."""
    found = hold(reading)
    wrong = wrongness(found)
    if as_json:
        pairs = [{**dataclasses.asdict(one), "ratio": one.ratio} for one in found]
        told = [{**dataclasses.asdict(one), "worst": one.worst.case_id} for one in wrong]
        click.echo(envelope({"pairs": pairs, "wrong": told}, run_id=reading.records.run_id))
        return Exit.OK
    for line in grid([_HEAD, *map(_cells, found)], (3, 4, 5)):
        say(line)
    for one in wrong:
        say(_sentence(one))
    return Exit.OK


def _cells(one: Held) -> list[str]:
    times = (f"{one.estimated_ms:.3g}", f"{one.measured_ms:.3g}", f"{one.ratio:.2f}")
    return [one.case_id, one.side, one.bound, *times]


def _sentence(one: Wrong) -> str:
    return (
        f"{one.side}: measured is {one.geomean:.2f} times estimated (geomean of {one.count}), "
        f"at worst {one.worst.ratio:.2f} ({one.worst.case_id})"
    )
