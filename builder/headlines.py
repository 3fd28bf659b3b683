"""The figure that a document leads with, held against what the document's own commands run by default.

A reader who copies a command must get what the headline says: the same cases, and no stub. The headline is
the first marked figure in × of a document.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from builder import figures, runs
from builder.bundle import MODEL_NAMES
from builder.errors import FerryError
from builder.markdown import Block, blocks
from builder.marks import Mark, parse
from builder.mentions import Miss
from builder.quoting import Quote, quotes
from builder.shells import commands_in, lines_of, words_of

_MEASURES = ("run", "push", "build")


@dataclass(frozen=True)
class Planned:
    """What a command would measure: ids of cases, and the file of the model; None for gpuferry's own."""

    cases: frozenset[str]
    model: Path | None = None


Plan = Callable[[Sequence[str], Path], Planned | None]  # of a command's words, in a folder


@dataclass(frozen=True)
class Asked:
    """A command of a document that measures; `stub` says why it measures the baseline itself.

    `laid_down`: the stub is one that the reader has just made with `ferry init`, to begin with.
    """

    line: int
    planned: Planned
    stub: str = ""
    laid_down: bool = False


def misses(text: str, folder: Path, plan: Plan) -> Iterator[Miss]:
    """Yield commands that run an untouched stub, and a headline that no command of the document runs."""
    found = next(_headline(text), None)
    if found is None:
        return
    quote, mark = found
    asked = [one for block in blocks(text) if block.kind == "code" for one in _asked(block, folder, plan)]
    why = _not_run(mark, [one for one in asked if not one.stub]) if asked else ""
    if why:
        yield Miss(quote.line, f"{quote.text}: {why}")
    for one in asked:
        if one.stub and (why or not one.laid_down):
            yield Miss(one.line, f"{one.stub}; {quote.text} leads this document")


def _headline(text: str) -> Iterator[tuple[Quote, Mark]]:
    """Yield the first figure in × that comes from runs, if there is one."""
    for quote in quotes(text):
        if isinstance(quote, Quote) and quote.mark and quote.unit == "×":
            try:
                mark = parse(quote.mark)
            except FerryError:  # that is a miss of its own
                continue
            if mark and not any(source.is_file for source in mark.sources):
                yield quote, mark
                return


def _not_run(mark: Mark, asked: Sequence[Asked]) -> str:
    """Say why no command measures what a headline is made of; empty when one does."""
    try:
        rows = figures.all_rows(mark)
        models = {Path(runs.find(row.run_id).spec.model_path).name for row in rows}
    except FerryError:
        return ""
    wanted = {row.case_id for row in rows if row.speedup}
    for one in asked:
        own = one.planned.model.name if one.planned.model else ""
        if wanted <= one.planned.cases and models == {own}:
            return ""
    first = min(wanted, default="")
    told = f"it leads this document, and no command in it runs {first}"
    offered = sorted({case for one in asked for case in one.planned.cases})
    if near := get_close_matches(first, offered, 1, 0.0):
        line = next(one.line for one in asked if near[0] in one.planned.cases)
        whose = f" of {', '.join(models - {''}) or 'the model of gpuferry'}" if near[0] == first else ""
        told += f"{whose}; the nearest is {near[0]} on line {line}"
    return told


# --- a document's commands that measure ---------------------------------------------------------------------


def _asked(block: Block, folder: Path, plan: Plan) -> Iterator[Asked]:
    """Yield the commands of a block; `cd` counts, as far as `ferry init` or the checkout has the folder."""
    here, laid_down = folder, set[Path]()
    for line, text in lines_of(block):
        for words in commands_in(words_of(text)):
            match words:
                case ["cd", place]:
                    here = here / place
                case ["ferry", "init", *rest]:
                    laid_down.add(here / next((word for word in rest if not word.startswith("-")), "."))
                case ["ferry", verb, *rest] if verb in _MEASURES:
                    yield from _of_ferry(line, [verb, *rest], here, laid_down, plan)
                case ["python" | "python3", "-m", "harness", *rest] if "--model" not in rest:
                    yield Asked(
                        line, Planned(frozenset()), "`python -m harness` without --model runs its stub"
                    )
                case ["python" | "python3", script, *_] if why := _stub(here / script):
                    yield Asked(line, Planned(frozenset()), why)


def _of_ferry(line: int, words: list[str], here: Path, laid_down: set[Path], plan: Plan) -> Iterator[Asked]:
    if here in laid_down and not here.exists():
        told = f"`ferry {' '.join(words)}` runs the stub that `ferry init` lays down"
        yield Asked(line, Planned(frozenset()), told, True)
    elif planned := plan(words, here):
        yield Asked(line, planned, _stub(planned.model) if planned.model else "")


def _stub(path: Path) -> str:
    """Say of a file that its model is the baseline itself; empty when it is not, or there is none."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return ""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    name = next((name for name in MODEL_NAMES if name in classes), "")
    is_stub = bool(name) and all(map(_adds_nothing, classes[name].body))
    return f"{path.name} is a stub: its {name} does what the baseline does" if is_stub else ""


def _adds_nothing(node: ast.stmt) -> bool:
    """Whether a statement of a class, or of a method, changes nothing of what the parent does."""
    if isinstance(node, ast.FunctionDef):
        return all(map(_adds_nothing, node.body))
    if isinstance(node, (ast.Expr, ast.Return)) and node.value is not None:
        text = ast.unparse(node.value)
        return isinstance(node.value, ast.Constant) or bool(
            re.match(r"super\(\)\.(__init__|forward)\(", text)
        )
    return isinstance(node, ast.Pass)
