"""How a request or a reply travels between the driver and its children. Standard library only.

Each message is one JSON line, `["Build", {…}, 7]`, over a pair of pipes that are nobody's stdin, stdout or
stderr: what a candidate prints can never be taken for a reply, and nothing is ever unpickled.
"""

from __future__ import annotations

import json

from harness.channel import KINDS, Message
from harness.events import from_plain, to_plain
from harness.plain import UNREADABLE


class BrokenMessageError(ValueError):
    """A line on the channel is no message: somebody else wrote there."""


def pack(message: Message, number: int) -> bytes:
    """Return the message's line, line end included; a reply has its request's number."""
    return json.dumps([type(message).__name__, to_plain(message), number]).encode() + b"\n"


def unpack(line: bytes) -> tuple[Message, int]:
    """Undo `pack`. Raises BrokenMessageError when the line is not what it wrote."""
    try:
        kind, body, number = json.loads(line)
        message: Message = from_plain(KINDS[kind], body)
        return message, from_plain(int, number)
    except UNREADABLE as problem:
        raise BrokenMessageError(f"{line[:80]!r} is no message") from problem
