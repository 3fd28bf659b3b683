"""What an op becomes on sm_75, sm_80, sm_90: registers, spills, tensor-core instructions; no GPU needed"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from builder import inspecting
from builder.cli._listing import grid
from builder.cli._output import envelope, say
from builder.errors import Exit, UsageError
from builder.inspecting import Found, Question
from builder.spec import Selection, plan

_HEAD = ("function", "arch", "registers", "stack", "hot spills", "shared", "tensor", "dots")
_RIGHT = (2, 3, 4, 5, 6, 7)


@click.command("inspect")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--arch", "archs", default="sm_75,sm_80,sm_90", show_default=True, help="For which cards.")
@click.option(
    "--function", "functions", multiple=True, help="Only this function; may be given several times."
)
@click.option("--signature", default="", help="Types, as x=*fp16,n=i32, or in order: *fp16,i32.")
@click.option(
    "--constants", default="", help="Constants and options, as BLOCK=128,num_warps=8; macros of a .cu."
)
@click.option("--ours", is_flag=True, help="What our own routes launch at the contest's shapes.")
@click.option("--shapes", default="", help="With --ours: only these, as 1,8.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    file: Path | None,
    archs: str,
    functions: tuple[str, ...],
    signature: str,
    constants: str,
    ours: bool,
    shapes: str,
    as_json: bool,
) -> Exit:
    """Compile a file's Triton functions, or a .cu, for cards that are not here, and read the machine code.

    Types and constants that nobody gives come from the file's own INSPECT = {"f": {"signature": {…},
    "constants": {…}}}, from defaults and autotuners, else they are guessed, and that is said. Stack: bytes a
    thread has in memory, for registers above all; hot spills: instructions of innermost loops that move
    registers there or back. Exit 3: something does not compile, does not fit, or, of our own ops, breaks
    their limits.

    \b
    Example:  ferry inspect op.py --arch sm_75,sm_90 --constants BLOCK=128
    """
    if (file is None) is not ours:
        raise UsageError("name a file, or --ours", "ferry inspect op.py")
    question = Question(
        _archs(archs), file, functions, _listed(signature), _constants(constants), _numbers(shapes)
    )
    found = list(inspecting.inspect(question))
    bad = [one for one in found if (one.broken() if ours else one.wrong())]
    if as_json:
        code = Exit.CASE_FAILED if bad else Exit.OK
        click.echo(envelope({"functions": [_record(one, ours) for one in found]}, exit_code=code))
        return code
    _show(found, ours)
    for one in bad if ours else ():
        say(f"{one.function} (sm_{one.arch}, {one.label}) {one.broken()}")
    return Exit.CASE_FAILED if bad else Exit.OK


def _show(found: Sequence[Found], ours: bool) -> None:
    if not found:
        say("nothing of ours is launched there: the routes taken are torch's" if ours else "there is no op")
        return
    head = (*_HEAD, *(["used by"] if ours else []))
    for line in grid([head, *(_cells(one, ours) for one in found)], _RIGHT):
        say(line)
    notes = dict.fromkeys(f"{one.function}: {note}" for one in found for note in one.notes)
    for text in (*notes, *(() if ours else map(_told, found))):
        say(text)


def _told(one: Found) -> str:
    return f"{one.function}, sm_{one.arch}: {inspecting.sentence(one)}"


def _cells(one: Found, ours: bool) -> list[str]:
    usage = one.usage
    figures = (usage.registers, usage.stack, usage.hot_spills) if usage else ("", "", "")
    rest = (one.shared, one.tensor, one.dots) if usage else ("", "", "")
    return [one.function, f"sm_{one.arch}", *map(str, (*figures, *rest)), *([one.label] if ours else [])]


def _record(one: Found, ours: bool) -> dict[str, Any]:
    usage = one.usage
    figures = ("registers", "stack", "hot_spills", "tensor")
    return {
        **{name: getattr(one, name) for name in ("function", "arch", "label", "shared", "dots", "notes")},
        **{name: getattr(usage, name) if usage else None for name in figures},
        "sentence": inspecting.sentence(one),
        "wrong": one.broken() if ours else one.wrong(),
    }


def _archs(text: str) -> list[int]:
    found = [re.fullmatch(r"(?:sm_)?(\d{2,3})", word) for word in _listed(text)]
    if not all(found):
        raise UsageError(f"{text!r} is no list of architectures", "write it as sm_75,sm_90")
    return [int(one[1]) for one in found if one]


def _listed(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _constants(text: str) -> dict[str, Any]:
    pairs = [word.partition("=") for word in _listed(text)]
    if bad := [name for name, equals, _ in pairs if not equals or not name]:
        raise UsageError(f"{bad[0]!r} is no constant with a value", "write it as BLOCK=128,GELU=True")
    return {name.strip(): _value(value.strip()) for name, _, value in pairs}


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _numbers(text: str) -> list[str]:
    if not text:
        return []
    cases = plan(Selection(suite="official", shapes=text))
    return list(dict.fromkeys(case.shape.key.removeprefix("s") for case in cases))
