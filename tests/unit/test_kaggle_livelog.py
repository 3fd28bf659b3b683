"""The live log, in each form that the service sends it and with each way that it ends."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import pytest

from builder.backends.kaggle.livelog import records, with_silence
from builder.errors import InfrastructureError
from builder.log import LogReader

EVENTS = "text/event-stream"
WRITES = [("stdout", "hällo <&>\n"), ("stderr", "line\u2028separator\n"), ("stdout", "end")]
RECORDS = [{"stream_name": name, "time": 1.5, "data": data} for name, data in WRITES]


def stream(*texts: str) -> bytes:
    """An event stream of these data."""
    return "".join(f"data: {text}\n\n" for text in texts).encode()


def read(content_type: str, *blocks: bytes) -> list[tuple[str, str]]:
    """The writes that the records hold."""
    found = [json.loads(line) for line in b"".join(records(content_type, iter(blocks))).splitlines()]
    return [(record["stream_name"], record["data"]) for record in found]


def test_an_event_stream_ends_with_its_last_word() -> None:
    """Records come in order; comments, ids and event names do not; nothing after the end does."""
    body = b": hello\nid: 1\nevent: log\n" + stream(*map(json.dumps, RECORDS), "END_OF_LOG", "late")
    assert read(EVENTS, body) == WRITES


def test_a_stream_that_is_cut_is_not_whole() -> None:
    """Without its last word the stream is told to be broken, after all that had come."""
    found = records(EVENTS, iter([stream(json.dumps(RECORDS[0]))]))
    assert json.loads(next(found))["data"] == WRITES[0][1]
    with pytest.raises(InfrastructureError):
        next(found)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_blocks_may_be_cut_anywhere(size: int) -> None:
    """Neither a character nor a line needs to be whole in a block."""
    texts = [json.dumps(record, ensure_ascii=False) for record in RECORDS]
    body = stream(*texts, "END_OF_LOG").replace(b"\n", b"\r\n")
    assert read(EVENTS, *(body[at : at + size] for at in range(0, len(body), size))) == WRITES


@pytest.mark.parametrize("charset", ["", "; charset=utf-8", "; charset=latin-1", "; charset=nonsense"])
def test_the_charset_is_the_declared_one_or_utf_8(charset: str) -> None:
    """Without a declaration it is UTF-8, which a text type's old default is not."""
    coding = "latin-1" if "latin" in charset else "utf-8"
    body = stream('{"stream_name":"stdout","data":"hällo"}', "END_OF_LOG").decode().encode(coding)
    assert read(EVENTS + charset, body) == [("stdout", "hällo")]


@pytest.mark.parametrize(
    "body",
    [
        "[" + "\n,".join(map(json.dumps, RECORDS)) + "\n]",
        json.dumps(RECORDS),
        json.dumps(RECORDS, indent=None)[:-1],
        "\n".join(map(json.dumps, RECORDS)),
    ],
    ids=["array", "array on one line", "cut array", "one a line"],
)
def test_a_stored_log_has_the_records_of_the_stream(body: str) -> None:
    """Whoever comes back after the end can skip what the stream had brought: the bytes are the same."""
    live = b"".join(records(EVENTS, iter([stream(*map(json.dumps, RECORDS), "END_OF_LOG")])))
    assert b"".join(records("application/json", iter([body.encode()]))) == live


@pytest.mark.parametrize("form", [EVENTS, "application/json"])
def test_a_large_log_on_one_line_takes_a_moment(form: str) -> None:
    """What comes of a line is not copied again with each block: 20 MB in 2,500 blocks cost no minute."""
    text = json.dumps(RECORDS[0] | {"data": "x" * 20_000_000})
    body = stream(text, "END_OF_LOG") if form == EVENTS else f"[{text}]".encode()
    began = time.process_time()
    [(_, data)] = read(form, *(body[at : at + 8000] for at in range(0, len(body), 8000)))
    assert len(data) == 20_000_000
    assert time.process_time() - began < 3


def test_half_a_character_costs_nothing_else() -> None:
    """A half of a pair, which JSON can escape and UTF-8 cannot hold, is replaced."""
    body = stream('{"stream_name":"stdout","data":"a\\ud800b"}', "END_OF_LOG")
    assert read(EVENTS, body) == [("stdout", "a?b")]


def test_what_is_no_record_is_a_line_of_text() -> None:
    """Text, and data that is no string, are shown and cost nothing else."""
    body = stream("plain words", '{"stream_name":"stdout","data":5}', "[1]", "END_OF_LOG")
    assert read(EVENTS, body) == [("stdout", "plain words\n"), ("stdout", "5"), ("stdout", "[1]\n")]
    assert read("text/plain", b"one\ntwo\n") == [("stdout", "one\n"), ("stdout", "two\n")]
    assert read("", b"") == []


def test_the_records_are_a_log_that_ferry_reads() -> None:
    """What comes out is one of the forms of a raw log, without a complaint."""
    reader = LogReader(records("application/json", iter([json.dumps(RECORDS).encode()])))
    assert [(line.stream, line.text) for line in reader.lines()] == [
        ("stdout", "hällo <&>"),
        ("stderr", "line\u2028separator"),
        ("stdout", "end"),
    ]
    assert reader.problems == []


def test_silence_is_told_while_nothing_comes() -> None:
    """An empty block comes while the next one is waited for, and the end comes after the last."""
    go_on = threading.Event()

    def blocks() -> Iterator[bytes]:
        yield b"one"
        assert go_on.wait(30)
        yield b"two"

    found = with_silence(blocks(), tick_s=0.01)
    assert next(found) == b"one"
    assert next(found) == b""
    go_on.set()
    assert [block for block in found if block] == [b"two"]


def test_trouble_comes_through_the_silence() -> None:
    """What goes wrong while reading is raised where the log is read."""

    def blocks() -> Iterator[bytes]:
        yield b"one"
        raise InfrastructureError("cut")

    with pytest.raises(InfrastructureError, match="cut"):
        list(with_silence(blocks(), tick_s=30))


def test_what_nobody_has_foreseen_comes_through_too() -> None:
    """Any error of the thread that reads is raised here, instead of a silence without end."""

    def blocks() -> Iterator[bytes]:
        yield b"one"
        raise RecursionError("too deep")

    seen = with_silence(blocks(), 5.0)
    assert next(seen) == b"one"
    with pytest.raises(RecursionError):
        next(seen)
