"""Whatever happens to a log's bytes, each case is exactly right or unknown, and nothing crashes."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builder.log import LogReader
from builder.records import Records
from tests.unit.written_logs import (
    CASES,
    CHATTER,
    FORMS,
    TRAILER,
    Write,
    array,
    assert_exact_or_unknown,
    bodies,
    figures,
    lines_of,
    opened,
    parsed,
    plain,
    timed,
    writes,
)

SOME_FORMS = st.sampled_from(
    ["array", "array, indented", "event stream", "plain", "JSON lines", "array in UTF-16"]
)
LOGS = {form: write([*writes(), *TRAILER]) for form, write in FORMS.items()}
PLACES = st.floats(0, 1)  # in a log, as a share of its length


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the logs of all examples, each over the one before."""
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="module")
def whole(folder: Path) -> Records:
    """What the undamaged log says."""
    return parsed(folder, LOGS["plain"])


@settings(max_examples=20)
@given(data=st.data())
def test_any_record_boundaries(data: st.DataObject, folder: Path, whole: Records) -> None:
    """The same bytes split into any writes, the two streams interleaved in any way, are the same records."""
    left: dict[str, str] = {}
    for stream, text in writes():
        left[stream] = left.get(stream, "") + text
    run: list[Write] = []
    sizes = data.draw(st.lists(st.integers(1, 2000), min_size=3, max_size=20))
    order = data.draw(st.lists(st.sampled_from(["stdout", "stderr"]), min_size=1, max_size=20))
    for number in range(sum(map(len, left.values()))):
        stream = order[number % len(order)]
        size = sizes[number % len(sizes)]
        run.append((stream, left[stream][:size]))
        left[stream] = left[stream][size:]
        if not any(left.values()):
            break
    run += left.items()
    records = parsed(folder, array(run))
    assert list(figures(records)) == list(figures(whole)) and records.complete


@given(form=SOME_FORMS, first=PLACES, last=PLACES)
def test_any_cut(form: str, first: float, last: float, folder: Path, whole: Records) -> None:
    """A log that lost its start, its end or both has only exact results."""
    log = LOGS[form]
    start, end = sorted((round(first * len(log)), round(last * len(log))))
    for cut in (log[:end], log[start:], log[start:end]):
        assert_exact_or_unknown(parsed(folder, cut), whole)


@given(form=SOME_FORMS, hits=st.lists(st.tuples(PLACES, st.integers(1, 255)), min_size=1, max_size=3))
def test_flipped_bytes(form: str, hits: list[tuple[float, int]], folder: Path, whole: Records) -> None:
    """Bytes that were altered never change a figure."""
    log = bytearray(LOGS[form])
    for place, change in hits:
        log[round(place * (len(log) - 1))] ^= change
    assert_exact_or_unknown(parsed(folder, bytes(log)), whole)


@given(form=SOME_FORMS, places=st.tuples(*[PLACES] * 3))
def test_replayed_ranges(form: str, places: tuple[float, float, float], folder: Path, whole: Records) -> None:
    """A stretch of the log that comes again, as after a reconnection, changes nothing."""
    run = [*writes(), *TRAILER]
    start, end, later = sorted(round(place * len(run)) for place in places)
    records = parsed(folder, FORMS[form](run[:later] + run[start:end] + run[later:]))
    assert list(figures(records)) == list(figures(whole)) and records.complete


@given(form=SOME_FORMS, first=PLACES, last=PLACES, noise=st.binary(max_size=200))
def test_overwritten_stretches(
    form: str, first: float, last: float, noise: bytes, folder: Path, whole: Records
) -> None:
    """A stretch that was replaced by anything else leaves the rest exact."""
    log = LOGS[form]
    start, end = sorted((round(first * len(log)), round(last * len(log))))
    assert_exact_or_unknown(parsed(folder, log[:start] + noise + log[end:]), whole)


WORDS = rb"""[ { } ] , : " \ \u stream_name "stream_name" "data" "stdout" {"stream_name":" data: @@ferry@@"""
PIECES = st.sampled_from(
    [
        *WORDS.split(b" "),
        b"@@ferry@@ ",
        b',"check":"01234567"}',
        b"\xff\xfe",
        b"\xe2\x98",
        b"\x00",
        b"\n",
        b"\r",
    ]
)


@given(st.binary(max_size=300) | st.lists(PIECES, max_size=60).map(b"".join), st.integers(1, 64))
def test_anything_at_all(log: bytes, size: int) -> None:
    """Arbitrary bytes in arbitrary pieces are read to their end."""
    blocks = [log[start : start + size] for start in range(0, len(log), size)]
    reader = LogReader(blocks)
    text = "".join(block.text for block in reader.blocks())
    assert text == "" or text.endswith("\n")
    assert reader.line_count == text.count("\n") and len(reader.tail(5)) <= 5


@given(log=st.binary(max_size=300) | st.lists(PIECES, max_size=60).map(b"".join))
def test_anything_has_records(log: bytes, folder: Path, whole: Records) -> None:
    """Arbitrary bytes are a log of nothing: every case is unknown."""
    records = parsed(folder, log)
    assert {record.status for record in records.cases} == {"unknown"} and not records.complete


@given(cut=PLACES)
def test_cut_and_restarted(cut: float, folder: Path) -> None:
    """A kill at any byte, with another attempt's output right behind it, harms neither attempt's results."""
    older = plain(writes(lines_of([*opened(), *timed(CASES[0])])))
    newer = plain(writes(lines_of([*opened(), *bodies()[13:]], attempt=2)))
    end = round(cut * len(older))
    records = parsed(folder, older[:end] + newer)
    first, *others = records.cases
    assert [record.status for record in others] == ["passed", "failed_gate", "error"]
    assert first.status == ("passed" if end >= len(older.rstrip()) else "unknown")
    assert records.complete == (first.status == "passed")


def test_streams_mixed_in_the_middle_of_lines(folder: Path, whole: Records) -> None:
    """In one stream of plain text, an event that chatter fell into is reported and its case is unknown."""
    run = writes()
    at = next(number for number, (_, data) in enumerate(run) if '"kind":"case"' in data)
    stream, data = run[at]
    run[at : at + 1] = [(stream, data[:90]), CHATTER[0], (stream, data[90:])]
    records = parsed(folder, plain(run))
    assert [record.status for record in records.cases] == ["unknown", "passed", "failed_gate", "error"]
    assert list(figures(parsed(folder, array(run)))) == list(figures(whole))
