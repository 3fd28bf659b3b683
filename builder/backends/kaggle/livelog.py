"""The live log as records, one a line, in whatever form the service sends it.

While the kernel runs it is an event stream that begins anew on each connection; afterwards it is the stored
log, an array. The same record has the same bytes either way, so that whoever comes back can skip what it has.
"""

from __future__ import annotations

import codecs
import json
import queue
import threading
from collections.abc import Iterator
from email.message import Message

from builder.errors import InfrastructureError

END = "END_OF_LOG"
TICK_S = 3.0  # how often silence is told


def records(content_type: str, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield records as they come. InfrastructureError when an event stream ends without its last word."""
    header = Message()
    header["Content-Type"] = content_type or "application/json"
    lines = _lines(blocks, header.get_content_charset("utf-8"))
    if header.get_content_type() != "text/event-stream":
        yield from _stored("\n".join(lines))
        return
    for line in lines:
        if not line.startswith("data:"):
            continue  # an empty line, a comment that keeps the connection alive, an event's name
        data = line[len("data:") :].strip()
        if data == END:
            return
        yield _record(data)
    raise InfrastructureError("the live log was cut off", "the log begins anew on the next connection")


def _lines(blocks: Iterator[bytes], charset: str) -> Iterator[str]:
    try:
        decoder = codecs.getincrementaldecoder(charset)("replace")
    except LookupError:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
    held = ""
    for block in blocks:
        *whole, held = (held + decoder.decode(block)).split("\n")
        for line in whole:
            yield line.removesuffix("\r")
    if held := held + decoder.decode(b"", final=True):
        yield held


def _stored(text: str) -> Iterator[bytes]:
    """Yield the records of an array, also a cut one, or of records one a line; other lines are text."""
    for line in text.split("\n"):
        if piece := line.strip().lstrip("[,").removesuffix("]").strip():
            yield from _each(piece)


def _each(piece: str) -> Iterator[bytes]:
    try:
        found = json.loads(f"[{piece.rstrip(',')}]")  # an array may stand on one line
    except (ValueError, RecursionError):
        found = [piece]
    for item in found:
        yield _record(json.dumps(item) if isinstance(item, dict) else str(item))


def _record(data: str) -> bytes:
    """Return one record in one spelling; what is none becomes a line of stdout."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or "data" not in content:
        content = {"stream_name": "stdout", "data": data + "\n"}
    plain = {
        "stream_name": str(content.get("stream_name", "stdout")),
        "data": content["data"] if isinstance(content["data"], str) else json.dumps(content["data"]),
    }
    return json.dumps(plain).encode() + b"\n"


def with_silence(blocks: Iterator[bytes], tick_s: float) -> Iterator[bytes]:
    """Yield the blocks, and b"" whenever none has come for a while: reading a socket cannot be told to do so.

    Raises what the blocks raise.
    """
    arrived: queue.SimpleQueue[bytes | Exception | None] = queue.SimpleQueue()
    left = threading.Event()

    def pump() -> None:
        try:
            for block in blocks:
                if left.is_set():
                    return
                arrived.put(block)
            arrived.put(None)
        except Exception as problem:  # noqa: BLE001 - it is raised where the blocks are read
            arrived.put(problem)

    threading.Thread(target=pump, name="live log", daemon=True).start()
    try:
        while True:
            try:
                item = arrived.get(timeout=tick_s)
            except queue.Empty:
                item = b""
            if item is None:
                return
            if isinstance(item, Exception):
                raise item
            yield item
    finally:
        left.set()
