"""Claims without a figure: `It fails the gate.<!-- holds: RUN/CASE status=failed_gate -->`.

A claim is RUN[/CASE] CONDITION [COLUMN=VALUE…]. The condition is a column, or an aggregate of one, with =, <,
>, <= or >= and a value; without an aggregate each row must fulfil it. Numbers are those of the CSV.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator

from builder.errors import FerryError, UsageError
from builder.markdown import blocks
from builder.marks import AGGREGATES, Mark, parse
from builder.mentions import Miss
from builder.quoting import rows_of
from builder.results import cell

_CLAIM = re.compile(r"<!--\s*holds:(.*?)-->", re.DOTALL)
_CONDITION = re.compile(r"([a-z0-9_]+(?:\([a-z0-9_]+\))?)(<=|>=|=|<|>)(\S+)")
_SAYS = {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}


def misses(text: str) -> Iterator[Miss]:
    """Yield each claim of a document that does not hold, or whose rows there are not, with its line."""
    for block in blocks(text):
        if block.kind != "prose":
            continue
        for found in _CLAIM.finditer(block.without_spans()):
            claim = " ".join(found[1].split())
            try:
                wrong = _wrong(claim)
            except FerryError as problem:
                wrong = problem.message
            if wrong:
                yield Miss(block.line_of(found.start()), f"the claim {claim}: {wrong}")


def _wrong(claim: str) -> str:
    """Say which row a claim does not hold of; empty when it holds."""
    words = claim.split()
    condition = _CONDITION.fullmatch(words[1]) if len(words) > 1 else None
    if condition is None:
        raise UsageError("it has no condition such as status=passed or max(speedup)<1")
    formula, says, value = condition.groups()
    mark = parse(" ".join([words[0], formula, *words[2:]]))
    assert mark is not None  # only `not measured:` has no rows, and a run is not named like that
    for where, has in _cells(mark):
        if not _holds(has, says, value):
            return f"{where} has {has or 'no value'}"
    return ""


def _cells(mark: Mark) -> Iterator[tuple[str, str]]:
    """Yield what the condition is about: a cell of each row, or one that an aggregate makes of them."""
    (term,) = mark.terms
    cells = [(row.case_id, cell(getattr(row, term.column))) for row in rows_of(mark)]
    if not term.aggregate:
        yield from cells
        return
    numbers = [float(has) for _, has in cells if has]
    yield mark.text, cell(AGGREGATES[term.aggregate](numbers)) if numbers else ""


def _holds(has: str, says: str, value: str) -> bool:
    if says == "=":
        return has == value
    try:
        return bool(has) and bool(_SAYS[says](float(has), float(value)))
    except ValueError as problem:
        raise UsageError(f"{has!r} and {value!r} are not two numbers") from problem
