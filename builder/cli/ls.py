"""The runs there are, the newest first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import click
import msgspec

from builder import index
from builder.cli._listing import aligned
from builder.cli._voice import document, say
from builder.errors import Exit, UsageError
from builder.index import Entry

_SHOWN = 40
_SORTS: dict[str, Callable[[Entry], Any]] = {
    "device": lambda entry: entry.devices.lower(),
    "suite": lambda entry: entry.suite,
    "state": lambda entry: entry.state,
    "passed": lambda entry: entry.statuses.get("passed", 0),
    "name": lambda entry: entry.name.lower(),
}


@click.command("ls")
@click.argument("words", nargs=-1, metavar="[TEXT]...")
@click.option("--shape", help="Runs with this shape, as 8 or s08.")
@click.option("--route", help="Runs with this route.")
@click.option("--device", help="Part of the device's name, or of what was asked for.")
@click.option("--status", help="The run's state, or a status that one of its cases has.")
@click.option("--since", metavar="DATE", help="Begun on this day (UTC) or later, as 2026-11-30.")
@click.option("--until", metavar="DATE", help="Begun on this day (UTC) or before.")
@click.option(
    "--sort", type=click.Choice(["date", *_SORTS]), default="date", help="By what; most and newest first."
)
@click.option("--reverse", is_flag=True, help="The other way round.")
@click.option("-n", "--limit", type=click.IntRange(min=0), help=f"So many; 0 is all.  [default: {_SHOWN}]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, by default of all.")
def command(
    words: tuple[str, ...], sort: str, reverse: bool, limit: int | None, as_json: bool, **wanted: str | None
) -> Exit:
    """List the runs there are, the newest first, also those kept under runs/published.

    Each word of TEXT must occur somewhere in what is known of a run. A folder that is no whole run is listed
    as damaged, with what is wrong.

    \b
    Example:  ferry ls --device h200 --route compiled --since 2026-11-01
    """
    asked = _wanted(words, **wanted)
    found = index.entries()
    for fits in asked:
        found = list(filter(fits, found))
    if sort != "date":
        found.sort(key=_SORTS[sort], reverse=sort == "passed")
    if reverse:
        found.reverse()
    if as_json:
        click.echo(_document(found[: limit or None]))
        return Exit.OK
    limit = _SHOWN if limit is None else limit or len(found)
    if found:
        say("\n".join(aligned([_line(entry) for entry in found[:limit]])))
    if len(found) > limit:
        say(f"{limit} of {len(found):,} runs; all of them: -n 0")
    return Exit.OK


Fits = Callable[[Entry], bool]
# What people read for a state that says little by itself.
_STATES = {"": "new", "parsed": "has results"}


def _wanted(
    words: Iterable[str],
    shape: str | None,
    route: str | None,
    device: str | None,
    status: str | None,
    since: str | None,
    until: str | None,
) -> list[Fits]:
    """Return what a run must fit."""
    asked: list[Fits] = []
    if shape:
        key = f"s{int(shape):02}" if shape.isdecimal() else shape
        asked.append(lambda entry: key in entry.shapes.split())
    if route:
        asked.append(lambda entry: route in entry.routes.split())
    if device:
        asked.append(lambda entry: device.lower() in f"{entry.devices}\n{entry.accelerator}".lower())
    if status:
        asked.append(lambda entry: status == entry.state or status in entry.statuses)
    if since:
        first = _day(since, "--since")
        asked.append(lambda entry: entry.run_id[: len(first)] >= first)
    if until:
        last = _day(until, "--until")
        asked.append(lambda entry: entry.run_id[: len(last)] <= last)
    return [*asked, *(_says(word.lower()) for word in words)]


def _says(word: str) -> Fits:
    return lambda entry: any(word in str(value).lower() for value in _plain(entry).values())


def _day(text: str, option: str) -> str:
    """Return the digits that the id of a run of that day, month or year begins with."""
    if not re.fullmatch(r"\d{4}(?:-?\d{2}(?:-?\d{2})?)?", text):
        raise UsageError(f"{option} {text!r} is no date", "write 2026-11-30, 2026-11 or 2026")
    return text.replace("-", "")


def _line(entry: Entry) -> dict[str, Any]:
    """Return a run as people see it."""
    told = sum(entry.statuses.values())
    passed = f"{entry.statuses.get('passed', 0)} of {told}" if told else ""
    notes = (
        "published" if entry.is_published else "",
        f"retracted: {entry.retracted}" if entry.retracted else "",
        entry.note,
    )
    return {
        "run_id": entry.run_id,
        "state": _STATES.get(entry.state, entry.state),
        "backend": entry.backend,
        "device": entry.devices or (f"({entry.accelerator})" if entry.accelerator else ""),
        "suite": entry.suite,
        "cases": entry.cases,
        "passed": passed,
        "name": entry.name,
        "note": "; ".join(filter(None, notes)),
    }


def _plain(entry: Entry) -> dict[str, Any]:
    """Return a run as programs see it."""
    lists = {name: getattr(entry, name).split() for name in ("shapes", "routes", "dtypes", "protocols")}
    fields = {name: getattr(entry, name) for name in entry.__struct_fields__}
    return {**fields, **lists, "devices": [name for name in entry.devices.split(", ") if name]}


def _document(found: Iterable[Entry]) -> str:
    """Return the JSON document of a listing that may be long: made entry by entry, and not by `json`."""
    listed = b",".join(msgspec.json.encode(_plain(entry)) for entry in found)
    plain = msgspec.json.encode(document({"ls": msgspec.Raw(b"[" + listed + b"]")}))
    return msgspec.json.format(plain, indent=2).decode()
