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

import msgspec

from builder.errors import InfrastructureError

END = "END_OF_LOG"
TICK_S = 3.0  # how often silence is told


class _Write(msgspec.Struct, gc=False, kw_only=True):
    stream_name: str = "stdout"
    data: str


_decode = msgspec.json.Decoder(_Write).decode
_decode_several = msgspec.json.Decoder(list[_Write]).decode
_encode = msgspec.json.Encoder().encode
_UNFIT = (msgspec.MsgspecError, UnicodeError, RecursionError)


def records(content_type: str, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield records as they come, those of a block together.

    InfrastructureError when an event stream ends without its last word.
    """
    header = Message()
    header["Content-Type"] = content_type or "application/json"
    batches = _lines(blocks, header.get_content_charset("utf-8"))
    if header.get_content_type() != "text/event-stream":
        yield from filter(None, (b"".join(map(_stored, lines)) for lines in batches))
        return
    for lines in batches:
        # What is no data: an empty line, a comment that keeps the connection alive, an event's name.
        data = [line[len("data:") :].strip() for line in lines if line.startswith("data:")]
        has_ended = END in data
        if said := b"".join(map(_record, data[: data.index(END)] if has_ended else data)):
            yield said
        if has_ended:
            return
    raise InfrastructureError("the live log was cut off", "the log begins anew on the next connection")


def _lines(blocks: Iterator[bytes], charset: str) -> Iterator[list[str]]:
    """Yield the lines that each block completes; a line may be as long as the log."""
    try:
        decoder = codecs.getincrementaldecoder(charset)("replace")
    except LookupError:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
    held: list[str] = []
    for block in blocks:
        first, *others = decoder.decode(block).split("\n")
        held.append(first)
        if others:
            yield [line.removesuffix("\r") for line in ("".join(held), *others[:-1])]
            held = others[-1:]
    if last := "".join(held) + decoder.decode(b"", final=True):
        yield [last]


def _stored(line: str) -> bytes:
    """Return the records on a line of an array, whole or cut, or of records one a line; else its text."""
    piece = line.strip().lstrip("[,").removesuffix("]").strip().rstrip(",")
    if not piece:
        return b""
    try:
        return b"".join(map(_written, _decode_several(f"[{piece}]")))
    except _UNFIT:
        return _odd(piece)


def _odd(piece: str) -> bytes:
    """Return what is on a line that has not just sound records."""
    try:
        found = json.loads(f"[{piece}]")
    except (ValueError, RecursionError):
        found = [piece]
    return b"".join(_record(json.dumps(item) if isinstance(item, dict) else str(item)) for item in found)


def _record(data: str) -> bytes:
    """Return one record in one spelling; what is none becomes a line of stdout."""
    try:
        return _written(_decode(data))
    except _UNFIT:
        return _written(_mended(data))


def _mended(data: str) -> _Write:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or "data" not in content:
        return _Write(data=_sound(data) + "\n")
    text = content["data"] if isinstance(content["data"], str) else json.dumps(content["data"])
    return _Write(stream_name=_sound(str(content.get("stream_name", "stdout"))), data=_sound(text))


def _sound(text: str) -> str:
    """Replace halves of characters, which no encoding takes."""
    return text.encode("utf-8", "replace").decode()


def _written(write: _Write) -> bytes:
    return _encode(write) + b"\n"


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
