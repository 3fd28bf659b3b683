"""What a document mentions against what there is: commands, options, paths, runs, `make` goals, modules."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path

from builder.markdown import Block, blocks
from builder.shells import commands_in, lines_of, words_of

_DEVICE = Path(__file__).parents[1] / "harness"  # whose programs have options, too
_LINK = re.compile(r"\]\(([^)\s#]+)[^)]*\)")
_PATH = re.compile(r"[\w.@+-]+(?:/[\w.@+-]+)+/?|[\w.@+-]+/")
_RUN = re.compile(r"(?<![\w-])\d{8}-\d{6}(?:-[0-9a-f]{6})?(?![\w-])")
_NAME = re.compile(r"[a-z][a-z0-9-]*")
_GROUP = {"--version": False, "--help": False, "-h": False}


@dataclass(frozen=True)
class Miss:
    """Something in a document that is not so: its line and a sentence."""

    line: int
    sentence: str


@dataclass(frozen=True)
class World:
    """What there is: each command's options and whether they take a value, a checkout's root, runs' ids."""

    commands: Mapping[str, Mapping[str, bool]]
    root: Path
    runs: Collection[str] = ()


def misses(text: str, folder: Path, world: World) -> Iterator[Miss]:
    """Yield what a document in `folder` mentions that does not exist. Generated blocks are left alone."""
    for block in blocks(text):
        if block.kind == "prose":
            for found in _LINK.finditer(block.text):
                if not re.match(r"[a-z]+:", found[1]) and not _exists(found[1], folder, world.root):
                    yield Miss(block.line_of(found.start()), f"there is no {found[1]}")
            for line, span in block.spans():
                yield from (Miss(line, said) for said in _of_span(span, folder, world))
        elif block.kind == "code":
            yield from _of_code(block, folder, world)


def _of_span(span: str, folder: Path, world: World) -> Iterator[str]:
    words = words_of(span)
    if span.startswith("--"):
        yield from _bare_option(words[0].partition("=")[0], world)
    elif len(words) > 1 and words[0] in world.commands and words[1].startswith("-"):
        yield from _of_ferry(words, world)
    else:
        yield from _of_line(words, world)
    yield from _of_runs(span, world)
    if _PATH.fullmatch(span) and not _is_placeholder(span) and not _RUN.match(span):
        parts = span.rstrip("/").split("/")
        is_path = span.endswith("/") or "." in parts[-1] or (world.root / parts[0]).exists()
        if is_path and not _exists(span, folder, world.root):
            yield f"there is no {span}"


def _of_code(block: Block, folder: Path, world: World) -> Iterator[Miss]:
    for number, line in lines_of(block):
        words = words_of(line)
        for said in (
            *_of_line(words, world),
            *_of_runs(line, world),
            *_of_paths(words, folder, world.root),
        ):
            yield Miss(number, said)


def _of_line(words: list[str], world: World) -> Iterator[str]:
    """Look at every command of a line."""
    for command in commands_in(words):
        yield from _of_command(command, world)


def _of_command(words: list[str], world: World) -> Iterator[str]:
    match words:
        case ["ferry", *rest] | ["python" | "python3", "-m", "builder", *rest]:
            yield from _of_ferry(rest, world)
        case ["make", *goals]:
            known = _goals(world.root)
            for goal in filter(_NAME.fullmatch, goals if known else []):
                if goal not in known:
                    yield f"there is no goal `make {goal}`{_nearest(goal, known)}"
        case ["python" | "python3", "-m", module, *_] if (world.root / module.split(".")[0]).is_dir():
            place = world.root.joinpath(*module.split("."))
            if not (place.with_suffix(".py").exists() or place.is_dir()):
                yield f"there is no module {module}"


def _of_ferry(words: list[str], world: World) -> Iterator[str]:
    """Check a command of ferry and its options; a placeholder such as COMMAND is none."""
    if not words or not (words[0].startswith("-") or _NAME.fullmatch(words[0])):
        return
    name = "" if words[0].startswith("-") else words[0]
    if name and name not in world.commands:
        yield f"there is no command `ferry {name}`{_nearest(name, world.commands)}"
        return
    known = {**_GROUP, **(world.commands[name] if name else {})}
    is_value = False
    for word in words[1:] if name else words:
        option = word.partition("=")[0]
        if is_value or not re.match(r"--?[a-zA-Z]", word):
            is_value = False
        elif option in known:
            is_value = known[option] and "=" not in word
        else:
            yield f"`ferry {name}` has no option {option}{_nearest(option, known)}"


def _bare_option(option: str, world: World) -> Iterator[str]:
    """Check an option that is named without its command: some command or program of ours must have it."""
    known = {name for options in world.commands.values() for name in options} | set(_GROUP)
    if option in known or not re.fullmatch(r"--[a-z][a-z-]*", option):
        return
    for source in sorted(_DEVICE.glob("*.py")):
        known |= set(re.findall(r'"(--[a-z][a-z-]+)"', source.read_text(encoding="utf-8")))
    if option not in known and option.replace("--no-", "--", 1) not in known:
        yield f"no command has an option {option}{_nearest(option, known)}"


def _of_paths(words: list[str], folder: Path, root: Path) -> Iterator[str]:
    """Check paths in code that begin in the checkout, unless they are what the command writes."""
    for before, word in pairwise(["", *words]):
        path = word.removeprefix("./")
        if not _PATH.fullmatch(path) or _is_placeholder(path) or before in {"-o", "--output", ">", ">>"}:
            continue
        if (root / path.split("/")[0]).is_dir() and not _exists(path, folder, root):
            yield f"there is no {path}"


def _of_runs(text: str, world: World) -> Iterator[str]:
    for found in _RUN.finditer(text):
        if not any(run.startswith(found[0]) for run in world.runs):
            yield f"there is no run {found[0]} here"


def _goals(root: Path) -> set[str]:
    makefile = root / "Makefile"
    text = makefile.read_text(encoding="utf-8", errors="replace") if makefile.is_file() else ""
    return set(re.findall(r"^([a-z][a-z0-9-]*):", text, re.MULTILINE))


def _is_placeholder(path: str) -> bool:
    """Whether it stands for a path: some part of it is a word in capitals, or dots."""
    return any(re.fullmatch(r"[A-Z][A-Z_]+|\.{3,}", part) for part in path.split("/"))


def _exists(path: str, folder: Path, root: Path) -> bool:
    return (folder / path).exists() or (root / path).exists()


def _nearest(word: str, known: Collection[str]) -> str:
    near = get_close_matches(word, list(known), 1)
    return f"; the nearest is {near[0]}" if near else ""
