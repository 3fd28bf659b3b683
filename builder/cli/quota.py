"""What is left of an account's hours, as its service counts them."""

from __future__ import annotations

import click

from builder import backends
from builder.backends import Quota
from builder.cli._output import envelope, say
from builder.errors import Exit, a_no_is_final


@click.command("quota")
@click.option("--backend", default="kaggle", show_default=True, help="Whose account to ask about.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(backend: str, as_json: bool) -> Exit:
    """Ask the service how many hours of the week are left; a session counts once, however many cards.

    \b
    Example:  ferry quota
    """
    place = backends.load(backend)
    with a_no_is_final():
        found = place.quota()
    if as_json:
        rows = [{**vars(quota), "left_s": quota.left_s} for quota in found]
        click.echo(envelope({"account": place.account(), "quota": rows}))
        return Exit.OK
    for quota in found:
        say(f"{place.account()}  {_line(quota)}")
    if not found:
        say(f"nothing is counted on {backend}")
    return Exit.OK


def _line(quota: Quota) -> str:
    until = f", until {quota.refreshes_at}" if quota.refreshes_at else ""
    reserved = f", {quota.reserved_s / 3600:.2f} h reserved" if quota.reserved_s else ""
    return (
        f"{quota.resource}: {quota.used_s / 3600:.2f} of {quota.total_s / 3600:.2f} h used{reserved}, "
        f"{quota.left_s / 3600:.2f} h left{until}"
    )
