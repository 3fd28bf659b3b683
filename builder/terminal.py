"""Text that came from a log or a server, made safe to show. Standard library only."""

from __future__ import annotations

import re

_FRAME_END = re.compile(r"\r+(?=\n|\Z)")
_OLD_FRAMES = re.compile(r"[^\n]*\r")
_UNSAFE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor moves
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # titles, links, device strings
    r"|\x1b[ -/]*[0-~]?"  # any other escape
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # control characters but tab and line feed
    r"|[\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # marks that reorder what the reader sees
)


def printable(text: str) -> str:
    """Return `text` as it may be shown on a terminal.

    Terminal control sequences and control characters are left out; of a line that was overwritten with
    carriage returns, as progress bars do, its last state remains; half a surrogate pair becomes `?`.
    """
    if "\r" in text:
        text = _OLD_FRAMES.sub("", _FRAME_END.sub("", text))
    text = _UNSAFE.sub("", text)
    try:
        text.encode()
    except UnicodeEncodeError:
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return whole.replace("\ufffd", "?")
    return text


def one_line(text: str) -> str:
    """Return `text` as `printable` does, its lines and runs of blanks joined by single blanks."""
    return " ".join(printable(text).split())
