"""A log in any form is the same lines, whatever pieces it comes in."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.errors import UsageError
from builder.log import LINE_CHARS, LogReader
from builder.logforms import Form
from tests.unit.written_logs import FORMS, TRAILER, array, plain, records_of, stream, writes

KEEP_LINES = [
    name
    for name in FORMS
    if not any(
        word in name for word in ("1252", "colour", "times", "together", "frames", "each", "twice", "odd")
    )
]


def read(log: bytes) -> list[str]:
    """The lines of a log that is in memory."""
    return [line.text for line in LogReader(io.BytesIO(log)).lines()]


def spoken(stream_name: str) -> list[str]:
    """The lines that the sample run writes to a stream."""
    return "".join(data for name, data in writes() if name == stream_name).split("\n")[:-1]


@pytest.mark.parametrize("form", KEEP_LINES)
def test_every_form_gives_the_same_lines(form: str) -> None:
    """What a program printed comes out line by line, whatever the log's form and encoding."""
    lines = read(FORMS[form](writes()))
    if "warning" in form:
        assert lines.pop(0).startswith("Warning: Looks like")
    assert lines == "".join(data for _, data in writes()).split("\n")[:-1]


@pytest.mark.parametrize("form", ["array", "JSON lines", "event stream", "array, indented"])
def test_streams_are_told_apart(form: str) -> None:
    """Each line of a log of records knows its stream."""
    lines = list(LogReader(io.BytesIO(FORMS[form](writes()))).lines())
    for name in ("stdout", "stderr"):
        assert [line.text for line in lines if line.stream == name] == spoken(name)


@pytest.mark.parametrize(
    ("log", "form"),
    [
        (array(writes()), Form.ARRAY),
        (array(writes())[900:], Form.ARRAY),
        (FORMS["array, indented"](writes()), Form.ARRAY),
        (FORMS["JSON lines"](writes()), Form.LINES),
        (stream(writes()), Form.STREAM),
        (plain(writes()), Form.TEXT),
        (b"[notice] not JSON\n", Form.TEXT),
        (b'{"data": 3}\n{"data": 4}\n', Form.TEXT),
        (b" \r\n", Form.EMPTY),
    ],
)
def test_forms_are_recognised(log: bytes, form: Form) -> None:
    """The reader says which form it found."""
    reader = LogReader([log])
    list(reader.blocks())
    assert reader.form is form


@given(
    st.sampled_from(
        ["array", "array, indented", "event stream", "plain", "plain in UTF-16", "array in UTF-16"]
    ),
    st.lists(st.tuples(st.integers(1, 2**20), st.booleans())),
)
def test_arrival_in_pieces_changes_nothing(form: str, cuts: list[tuple[int, bool]]) -> None:
    """A log that arrives in any pieces, cut inside characters and escapes too, has the same lines."""
    log = FORMS[form](writes())
    pieces, start = [], 0
    for end, pause in sorted((cut % len(log), pause) for cut, pause in cuts):
        pieces += [log[start:end], b""] if pause else [log[start:end]]
        start = end
    lines = [(line.stream, line.text) for line in LogReader([*pieces, log[start:]]).lines()]
    assert lines == [(line.stream, line.text) for line in LogReader([log]).lines()]


def test_a_write_is_not_a_line() -> None:
    """Records that split, join and interleave lines are put together stream by stream."""
    run = [("stdout", "a"), ("stderr", "x\ny"), ("stdout", "b\nc"), ("stderr", "z\n"), ("stdout", "d\n\ne")]
    lines = [(line.stream, line.text) for line in LogReader([array(run)]).lines()]
    assert lines == [
        ("stderr", "x"),
        ("stdout", "ab"),
        ("stderr", "yz"),
        ("stdout", "cd"),
        ("stdout", ""),
        ("stdout", "e"),
    ]


def test_file_order_is_kept() -> None:
    """Lines keep the file's order although times go backwards, and are numbered from 1."""
    run = [("stdout", "first\n"), ("stderr", "second\n"), ("stdout", "third\n")]
    records = records_of(run)
    assert records[1]["time"] < records[0]["time"]  # type: ignore[operator]
    lines = list(LogReader([array(run)]).lines())
    assert [(line.number, line.text) for line in lines] == [(1, "first"), (2, "second"), (3, "third")]


def test_half_a_character_a_record() -> None:
    """A character whose two halves are in two records is whole in the tail."""
    reader = LogReader(
        [rb'[{"stream_name":"stdout","data":"\ud834"},{"stream_name":"stdout","data":"\udd1e\n"}]']
    )
    list(reader.lines())
    assert reader.tail(1) == ["𝄞"]


def test_a_live_log_is_shown_at_once() -> None:
    """The last record that has come is handed over as soon as nothing more is there, not with the next."""
    seen: list[str] = []

    def live() -> Iterator[bytes]:
        yield b'[{"stream_name":"stdout","time":1,"data":"one\\n"}\n'
        yield b""
        assert seen == ["one"]
        yield b',{"stream_name":"stdout","time":2,"data":"two\\n"}\n,{"stream_name":"std'
        yield b""
        assert seen == ["one", "two"]
        yield b'out","time":3,"data":"three\\n"}\n]'

    reader = LogReader(live())
    for line in reader.lines():
        seen.append(line.text)
    assert seen == ["one", "two", "three"]
    assert reader.problems == []


# --- what is damaged or missing ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "lines", "problem"),
    [
        (b"", [], "it is empty"),
        (b'[{"stream_name":"stdout","time":1,"data":"a\\nb', ["a", "b"], "has no end"),
        (b'[{"stream_name":"stdout","time":1,"data":"a\\nb\\u00', ["a", "b"], "damaged records: 1"),
        (b'[{"stream_name":"stdout","ti', ['{"stream_name":"stdout","ti'], "damaged records: 1"),
        (b'[{"stream_name":"stdout","data":"a\\n"}\noops\n]', ["a", "oops"], "lines that are no records: 1"),
        (b"caf\xe9\ncaf\xc3\xa9\n", ["café", "café"], "lines that are not UTF-8: 1"),
        (b'[{"stream_name":"stdout","data":"\\u12xz"},]', ["\\u12xz"], "damaged records: 1"),
        (b'[{"stream_name":"stdout","data":"a\tb\n"}]', ["a\tb"], ""),
    ],
)
def test_damage_is_named_and_the_rest_is_read(log: bytes, lines: list[str], problem: str) -> None:
    """What can be read of a damaged log is read, and the reader says in words what was wrong."""
    reader = LogReader([log])
    assert [line.text for line in reader.lines()] == lines
    assert problem in "; ".join(reader.problems) if problem else reader.problems == []


@pytest.mark.parametrize(
    ("head", "what"),
    [
        (b"PK\x03\x04\x14\x00\x00\x00", "a ZIP archive"),
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00", "a gzip archive"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "a picture"),
        (b"%PDF-1.7\n", "a PDF"),
        (b"\n<!DOCTYPE html>\n<html><body>403</body></html>", "a web page"),
        (json.dumps({"cells": [], "metadata": {}, "nbformat": 4}, indent=1).encode(), "a notebook"),
        (b"schema,run_id,case_id,part\n1,a,b,1\n", "a table of results"),
        (b'{"files": [], "log": "[]", "nextPageToken": ""}', "an answer of Kaggle's service"),
        (b'{"suite": "smoke", "cases": []}', "a file that ferry wrote"),
    ],
)
def test_what_is_no_log_is_called_by_its_name(head: bytes, what: str) -> None:
    """A file that is no log is named for what it is, with what to give instead."""
    reader = LogReader([head])
    list(reader.blocks())
    assert reader.form is Form.FOREIGN
    assert f"it is {what}" in reader.problems[0] and ": " in reader.problems[0]


def test_a_missing_file_is_a_sentence(tmp_path: Path) -> None:
    """A path that cannot be read is an error of ours, naming it."""
    with pytest.raises(UsageError, match=r"cannot read the log .*gone\.log: No such file"):
        list(LogReader(tmp_path / "gone.log").lines())


def test_a_line_too_long_is_cut_and_not_lost() -> None:
    """A line beyond the cap is cut into pieces, all of it is handed over, and the reader says so."""
    reader = LogReader(io.BytesIO(b"x" * 9 * LINE_CHARS + b"\nshort\n"))
    lines = [line.text for line in reader.lines()]
    assert "".join(lines[:-1]) == "x" * 9 * LINE_CHARS and lines[-1] == "short"
    assert "too long to hold" in reader.problems[0]


LINES = 75_000  # more than a megabyte of them is beyond what is held


@pytest.mark.parametrize("tail", ['","time":1}\n]', "", "\\", '\\ud834","time":1}'])
def test_a_record_too_long_is_read_in_pieces(tail: str) -> None:
    """A record beyond a megabyte gives all its lines, escapes and characters whole, cut short or not."""
    text = "".join(f'{number} é 𝄞 "\\\n' for number in range(LINES))
    inside = json.dumps(text, ensure_ascii=False)[1:-1]
    log = f'[{{"stream_name":"stderr","data":"{inside}{tail}'.encode()
    blocks = (log[start : start + 9973] for start in range(0, len(log), 9973))
    lines = list(LogReader(blocks).lines())
    assert "\n".join(line.text for line in lines[:LINES]) + "\n" == text
    assert {line.stream for line in lines[:LINES]} == {"stderr"}


# --- the tail ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["array", "plain", "event stream"])
def test_the_last_line_is_the_programs(form: str) -> None:
    """The tail leaves out events and all that the converter writes after the program."""
    run = [*writes(), ("stdout", "  File x.py, line 3\n\x1b[31mValueError: no\x1b[0m\n"), *writes()[-1:]]
    reader = LogReader([FORMS[form]([*run, *TRAILER])])
    list(reader.blocks())
    assert reader.tail(2) == ["  File x.py, line 3", "ValueError: no"]


def test_a_program_may_warn_too() -> None:
    """Only the end is trailer: a warning that the program itself goes on after stays."""
    reader = LogReader([b"/x/nbformat/a.py:3: UserWarning: w\n  warn(\ndone\n"])
    list(reader.blocks())
    assert reader.tail(9) == ["/x/nbformat/a.py:3: UserWarning: w", "  warn(", "done"]


def test_the_tail_outlives_many_blocks() -> None:
    """Of a log of many blocks the tail is the true end."""
    reader = LogReader(f"line {number}\n".encode() for number in range(30_000))
    list(reader.blocks())
    assert reader.tail(2) == ["line 29998", "line 29999"]
    assert reader.line_count == 30_000
