"""Wait, fetch log and outputs, parse, and print the table."""

from __future__ import annotations

from collections.abc import Mapping

import click

from builder import backends, runs
from builder.backends import Backend
from builder.cli import _dealing
from builder.cli._bringing import Brought, bring
from builder.cli._following import follow
from builder.cli._options import WAIT
from builder.cli._voice import envelope, error_document, in_json, say, show_error
from builder.errors import Exit, FerryError, InterruptError, about, worst
from builder.outputs import Wanted
from builder.runs import Run

_MIB = 1 << 20


@click.command("pull")
@click.argument("names", nargs=-1, metavar="[RUN]...")
@WAIT
@click.option("--no-wait", is_flag=True, help="Return at once with what is there.")
@click.option("--include", multiple=True, metavar="PATTERN", help="Bring only outputs with such a name.")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Bring no output with such a name.")
@click.option(
    "--max-mib", type=click.IntRange(min=0), default=0, help="Bring no larger output; 0 brings all."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    names: tuple[str, ...],
    patience_s: float,
    no_wait: bool,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    max_mib: int,
    as_json: bool,
) -> Exit:
    """Wait, fetch log and outputs, parse, and print the table; works from another shell, another day.

    RUN is a run's id or the beginning of one; without it the last unfinished run is pulled. Several runs are
    waited for together, and what goes wrong with one costs no other. The results always come; what else did
    not is listed, and a second pull brings it.

    \b
    Example:  ferry pull 20261130 --exclude '*.pt' --max-mib 100
    """
    found = list(dict.fromkeys(runs.find(name) for name in names or (None,)))
    by_name = {name: backends.load(name) for name in {run.spec.backend for run in found}}
    places = {run: by_name[run.spec.backend] for run in found}
    waited = {run: place for run, place in places.items() if not (no_wait or place.limits().by_hand)}
    wanted = Wanted(include, exclude, max_mib * _MIB)
    dealt = [run for run in waited if run.spec.is_dealt]
    codes = [_dealing.pull(run, patience_s, wanted) for run in dealt if not run.is_finished]
    waited = {run: place for run, place in waited.items() if run not in dealt}
    if len(found) > 1:
        return _pull_several(places, waited, patience_s, wanted, as_json)
    [(run, place)] = places.items()
    with about(run.id):
        follow(waited, patience_s)
        code, document = bring(run, place, wanted, as_json)
    if as_json:
        click.echo(in_json(document))
    return worst(code, *codes)


def _pull_several(
    places: Mapping[Run, Backend],
    waited: Mapping[Run, Backend],
    patience_s: float,
    wanted: Wanted,
    as_json: bool,
) -> Exit:
    """Pull runs with one poller for all; the worst exit code is that of the command."""
    codes, documents = [], []
    try:
        follow(waited, patience_s)
    except InterruptError:
        raise
    except FerryError as problem:  # what is over is fetched all the same
        codes.append(problem.exit_code)
        if not as_json:
            show_error(problem)
    for run, place in places.items():
        if not as_json:
            say(f"run {run.id}")
        code, document = _one_of_several(run, place, wanted, as_json)
        codes.append(code)
        documents.append(document)
    if as_json:
        click.echo(envelope({"runs": documents}, exit_code=worst(*codes)))
    return worst(*codes)


def _one_of_several(run: Run, place: Backend, wanted: Wanted, as_json: bool) -> Brought:
    try:
        with about(run.id):
            return bring(run, place, wanted, as_json)
    except FerryError as problem:
        if not as_json:
            show_error(problem)
        return problem.exit_code, error_document(problem)
