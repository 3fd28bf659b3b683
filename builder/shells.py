"""Shell lines in documents: the commands in them, as words, each with its line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from builder.markdown import Block

_OPERATORS = re.compile(r"[();<>|&]+")


def lines_of(block: Block) -> Iterator[tuple[int, str]]:
    """Yield a block's lines with their numbers in the document; one that goes on is one line."""
    number = block.number
    for line in block.text.replace("\\\n", "\0").split("\n"):
        yield number, line.replace("\0", " ").strip().removeprefix("$ ")
        number += 1 + line.count("\0")


def words_of(line: str) -> list[str]:
    """Split a line as a shell does, operators apart; a comment is no part of it."""
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        return list(lexer)
    except ValueError:  # an apostrophe in what is no command
        return line.partition(" #")[0].split()


def commands_in(words: list[str]) -> Iterator[list[str]]:
    """Yield every command of a line's words, without the variables that are set before it."""
    command: list[str] = []
    for word in [*words, ";"]:
        if not _OPERATORS.fullmatch(word):
            command.append(word)
        elif word in {"|", "||", "&&", ";", "&"}:
            while command and re.match(r"[A-Z_]+=", command[0]):
                command = command[1:]
            if command:
                yield command
            command = []
