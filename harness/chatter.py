"""What children print, made fit for the log. Standard library only."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

from harness.events import MARKER

HEAD_BYTES = TAIL_BYTES = 64_000
LINE_BYTES = 8_000  # a longer line goes on in the next one
_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
_CORE = MARKER.strip(" ").lstrip("@")  # a string that cannot overlap itself


def clean(line: bytes) -> str:
    """Return the line as a terminal would leave it, without controls, and with the event marker broken.

    Controls go first: a marker with an escape sequence inside would be whole again for a reader that
    strips them.
    """
    text = line.decode("utf-8", "backslashreplace").rstrip("\r").rpartition("\r")[2]
    return _CONTROL.sub("", text).replace(_CORE, _CORE[0] + "." + _CORE[1:])


def _size(line: str) -> int:
    """Bytes of the line in the log, its end included."""
    return len(line.encode()) + 1


class Relay:
    """The chatter of one card's children in one case: the head at once, the tail when the case ends.

    Every line gets `prefix`, so that none can be taken for anything but chatter. `write` takes whole lines.
    `forged` is whether one of this case's lines had the event marker.
    """

    def __init__(self, prefix: str, write: Callable[[list[str]], None]) -> None:
        self._prefix = prefix
        self._write = write
        self._partial: dict[str, bytes] = {}
        self._begin()

    def _begin(self) -> None:
        self.forged = False
        self._head_bytes = self._tail_bytes = self._left_out = 0
        self._tail: deque[str] = deque()

    def hear(self, speaker: str, data: bytes) -> None:
        """Take what `speaker` has printed; a line that has not ended yet waits for its end."""
        heard = self._partial.get(speaker, b"") + data
        self.forged = self.forged or MARKER.encode() in heard
        *whole, partial = heard.split(b"\n")
        cut = len(partial) - len(partial) % LINE_BYTES
        self._partial[speaker] = partial[cut:]
        lines = [line[at : at + LINE_BYTES] for line in whole for at in range(0, len(line) or 1, LINE_BYTES)]
        lines += [partial[at : at + LINE_BYTES] for at in range(0, cut, LINE_BYTES)]
        head = [line for line in map(self._written, lines) if self._fits(line)]
        if head:
            self._write(head)

    def _written(self, line: bytes) -> str:
        return self._prefix + clean(line)

    def _fits(self, line: str) -> bool:
        """Whether the line, as it is written, belongs to the head; else it is kept for the tail."""
        size = _size(line)
        if not self._tail and self._head_bytes + size <= HEAD_BYTES:
            self._head_bytes += size
            return True
        self._tail.append(line)
        self._tail_bytes += size
        while self._tail_bytes > TAIL_BYTES:
            dropped = _size(self._tail.popleft())
            self._tail_bytes -= dropped
            self._left_out += dropped
        return False

    def end(self) -> None:
        """Close the case: write unended lines and the tail, say how much is missing, and begin anew."""
        for speaker in [name for name, partial in self._partial.items() if partial]:
            self.hear(speaker, b"\n")
        left_out = f"{self._prefix}… {self._left_out} bytes of output left out …"
        lines = [*([left_out] if self._left_out else []), *self._tail]
        if lines:
            self._write(lines)
        self._begin()
