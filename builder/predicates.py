"""Claims without a figure: `It fails the gate.<!-- holds: RUN/CASE status=failed_gate -->`.

A claim is RUN[/CASE] CONDITION [COLUMN=VALUE…]. The condition is a column, or an aggregate of one, with =, <,
>, <= or >= and a value; without an aggregate each row must fulfil it. Two formulas, as of a figure's marker,
may be held against each other: `A/s13 median_ms < B/s13 median_ms`. Numbers are those of the CSV.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator

from builder.declared import levers
from builder.errors import FerryError, UsageError
from builder.figures import NoValueError, rows_of, values_of
from builder.markdown import Block, blocks
from builder.marks import Mark, parse
from builder.mentions import Miss
from builder.prose import sentence_at
from builder.results import cell
from builder.spec import routes
from harness.shapes import CHOOSING_ROUTES

_VERDICT = re.compile(
    r"\b(?:faster|slower|hurts?|wins?|loses|beats|helps|(?:passe?[sd]?|fail(?:s|ed)?) (?:the|its) gate)\b"
)
_CLAIM = re.compile(r"<!--\s*holds:(.*?)-->", re.DOTALL)
_CONDITION = re.compile(r"([a-z0-9_]+(?:\([a-z0-9_]+\))?)(<=|>=|=|<|>)(\S+)")
_BETWEEN = re.compile(r"(.+) (<=|>=|<|>) (.+)")
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
        yield from _bare(block)


def _bare(block: Block) -> Iterator[Miss]:
    """Yield the sentences that judge a route or a lever in words alone, without any marker."""
    known = {*routes(), *CHOOSING_ROUTES, *levers()}
    for found in _VERDICT.finditer(block.without_spans()):
        sentence = sentence_at(block.text, found.start(), found.end())
        judged = known & {span.partition("=")[0] for span in re.findall(r"`([^`]+)`", sentence)}
        if judged and "<!--" not in sentence:
            told = f"{found[0]!r} is said of {', '.join(sorted(judged))} without a marker"
            yield Miss(
                block.line_of(found.start()),
                f"{told}; as <!-- holds: RUN speedup>1 -->, or not measured: WHY",
            )


def _wrong(claim: str) -> str:
    """Say which row a claim does not hold of; empty when it holds."""
    if re.match(r"not measured: \S", claim):
        return ""
    if found := _BETWEEN.fullmatch(claim):
        first, says, other = found.groups()
        has, value = _made(_parsed(first)), _made(_parsed(other))
        return "" if value and _holds(has, says, value) else f"{first} has {has}, {other} has {value}"
    words = claim.split()
    condition = _CONDITION.fullmatch(words[1]) if len(words) > 1 else None
    if condition is None:
        raise UsageError("it has no condition such as status=passed or max(speedup)<1")
    formula, says, value = condition.groups()
    for where, has in _cells(_parsed(" ".join([words[0], formula, *words[2:]]))):
        if not _holds(has, says, value):
            return f"{where} has {has or 'no value'}"
    return ""


def _parsed(text: str) -> Mark:
    mark = parse(text)
    assert mark is not None  # only `not measured:` has no rows, and a run is not named like that
    return mark


def _cells(mark: Mark) -> Iterator[tuple[str, str]]:
    """Yield what the condition is about: a cell of each row, or one that a formula makes of them."""
    (end,) = mark.ends
    (first, *others), *more = end
    if others or more or first.term.aggregate or not first.source:
        yield mark.text, _made(mark)
    else:
        for row in rows_of(first.source):
            yield row.case_id, cell(getattr(row, first.term.column))


def _made(mark: Mark) -> str:
    """Return the cell of a formula; empty where no row has its column."""
    try:
        return cell(values_of(mark)[0])
    except NoValueError:
        return ""


def _holds(has: str, says: str, value: str) -> bool:
    if says == "=":
        return has == value
    try:
        return bool(has) and bool(_SAYS[says](float(has), float(value)))
    except ValueError as problem:
        raise UsageError(f"{has!r} and {value!r} are not two numbers") from problem
